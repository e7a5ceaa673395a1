package harness

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// StartFakeKubelet serves container logs for the node: for each request of the API server, writeLogs writes the log of a
// container. End-to-end tests use a real kubelet.
func (w *World) StartFakeKubelet(writeLogs func(out http.ResponseWriter, r *http.Request, pod, container string)) *httptest.Server {
	w.Helper()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		// /containerLogs/NAMESPACE/POD/CONTAINER
		parts := strings.Split(r.URL.Path, "/")
		if len(parts) != 5 || parts[1] != "containerLogs" {
			http.NotFound(out, r)
			return
		}
		writeLogs(out, r, parts[3], parts[4])
		if r.URL.Query().Get("follow") == "true" {
			_ = http.NewResponseController(out).Flush()
			<-r.Context().Done()
		}
	}))
	w.Cleanup(kubelet.Close)
	_, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	w.Expect(err).NotTo(gomega.HaveOccurred())
	n, err := strconv.ParseInt(port, 10, 32)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	var nodes corev1.NodeList
	w.Expect(w.List(w.Context(), &nodes)).To(gomega.Succeed())
	for i := range nodes.Items {
		node := &nodes.Items[i]
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(n)
		w.Expect(w.Status().Update(w.Context(), node)).To(gomega.Succeed())
	}
	return kubelet
}
