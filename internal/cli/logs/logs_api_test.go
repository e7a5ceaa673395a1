package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

const stack = `
components:
- name: web
  service: {image: "shop/web:1", replicas: 2}
- name: db
  stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}
`

// TestLogs reads through pods/log of a real API server, behind which a kubelet is played:
// each container has written two lines, and is silent then. A real kubelet is in the journeys.
func TestLogs(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	w := s.NewWorld(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(s.Plane.Config), kubeconfig)).To(Succeed())
	shop := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	w.Expect(yaml.UnmarshalStrict([]byte(stack), &shop.Spec)).To(Succeed())
	// Of the same name: its pods are not the stack's.
	other := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	other.Spec.Image = "shop/other:1"
	for _, o := range []client.Object{shop, other} {
		w.Expect(w.Create(t.Context(), o)).To(Succeed())
	}
	w.WaitReady(shop)
	w.WaitReady(other)
	p := &fixture{World: w, kubeconfig: kubeconfig, shop: shop}
	p.kubelet = w.StartFakeKubelet(serveTwoLines)
	t.Run("once", p.testOnce)
	t.Run("follow", p.testFollow)
	t.Run("wrong", p.testErrors)
	t.Run("unreachable", p.testUnreachableKubelet)
}

// fixture reads logs.
type fixture struct {
	*harness.World
	kubeconfig string
	shop       *appsapi.AppStack
	kubelet    *httptest.Server
}

// serveTwoLines are what each container has written.
func serveTwoLines(w http.ResponseWriter, r *http.Request, pod, container string) {
	if r.URL.Query().Get("timestamps") != "true" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, "2026-01-02T03:04:05.1Z %s begins\n2026-01-02T03:04:05.2Z %s works, tail %s\n", pod, container, r.URL.Query().Get("tailLines"))
}

// syncBuffer is safe to look at while somebody writes.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *syncBuffer) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

// String is without progress, which there is on a busy machine only.
func (o *syncBuffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return golden.StripProgress(o.Buffer.String())
}

// sortedLines are sorted, with the names of pods, which are chance, left out.
func (o *syncBuffer) sortedLines() []string {
	lines := strings.Split(strings.TrimSuffix(podSuffix.ReplaceAllString(o.String(), "POD"), "\n"), "\n")
	slices.Sort(lines)
	return lines
}

var podSuffix = regexp.MustCompile(`[0-9a-z]{8,10}-[0-9a-z]{5}\b`)

func (p *fixture) run(ctx context.Context, out, errOut *syncBuffer, args ...string) error {
	cmd := root.Command("test")
	cmd.SetOut(out)
	cmd.SetErr(errOut)
	cmd.SetArgs(append([]string{"--kubeconfig", p.kubeconfig, "-n", p.NS, "logs"}, args...))
	return cmd.ExecuteContext(ctx)
}

func (p *fixture) testOnce(t *testing.T) {
	g := NewWithT(t)
	var out, errOut syncBuffer
	g.Expect(p.run(t.Context(), &out, &errOut, "appstack/shop")).To(Succeed())
	got := podSuffix.ReplaceAllString(out.String(), "POD")
	web := "web/POD app  shop-web-POD begins\nweb/POD app  app works, tail 10\n"
	g.Expect(got).To(Equal(web + web + "db/0 app  shop-db-0 begins\ndb/0 app  app works, tail 10\n"))
	g.Expect(errOut.String()).To(BeEmpty())
}

func (p *fixture) testFollow(t *testing.T) {
	g := NewWithT(t)
	var out, errOut syncBuffer
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() {
		done <- p.run(ctx, &out, &errOut, "appstack", "shop", "--component", "web", "-f", "--tail", "5")
	}()
	one := []string{"web/POD app  app works, tail 5", "web/POD app  shop-web-POD begins"}
	g.Eventually(out.sortedLines, "30s").Should(Equal([]string{one[0], one[0], one[1], one[1]}))
	harness.Edit(p.ForTest(t), p.shop, func(s *appsapi.AppStack) { s.Spec.Components[0].Service.Replicas = new(int32(3)) })
	// The new one is read from its beginning.
	g.Eventually(out.sortedLines, "30s").Should(Equal([]string{"web/POD app  app works, tail ", one[0], one[0], one[1], one[1], one[1]}))
	stop()
	g.Eventually(done, "10s").Should(Receive(BeNil()))
}

func (p *fixture) testErrors(t *testing.T) {
	cases := map[string]struct {
		args         []string
		want, errOut string
	}{
		"another component": {args: []string{"appstack/shop", "--component", "api"}, want: "AppStack " + p.NS + "/shop has no component api; it has db, web"},
		"two of the name":   {args: []string{"shop"}, want: "several applications of namespace " + p.NS + " are called shop; say which one: appstack/shop or appservice/shop"},
		"another container": {args: []string{"appstack/shop", "-c", "sidecar"},
			errOut: "AppStack " + p.NS + "/shop has no pods with a container sidecar; kubectl describe appstack shop -n " + p.NS + " says why\n"},
	}
	for name, tc := range cases {
		var out, errOut syncBuffer
		err := p.run(t.Context(), &out, &errOut, tc.args...)
		if (err != nil || tc.want != "") && fmt.Sprint(err) != tc.want || errOut.String() != tc.errOut {
			t.Errorf("%s: got %v and %q", name, err, errOut.String())
		}
	}
}

func (p *fixture) testUnreachableKubelet(t *testing.T) {
	p.kubelet.CloseClientConnections()
	p.kubelet.Close()
	g := NewWithT(t)
	var out, errOut syncBuffer
	g.Expect(p.run(t.Context(), &out, &errOut, "appstack/shop", "--component", "db")).To(Succeed())
	g.Expect(out.String()).To(BeEmpty())
	g.Expect(errOut.String()).To(And(HavePrefix("db/0 app cannot be read: "), HaveSuffix("; try again\n")))
}
