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

// TestLogs reads pods/log of a real API server with a fake kubelet, whose containers wrote two lines each.
// The e2e tests use a real kubelet.
func TestLogs(t *testing.T) {
	if testing.Short() {
		t.Skip("requires an API server; run make test-api")
	}
	s := harness.New(t, func(*corev1.Pod) podsim.Behavior { return podsim.Behavior{} }, operator.Options{})
	w := s.NewWorld(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(s.Plane.Config), kubeconfig)).To(Succeed())
	shop := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	w.Expect(yaml.UnmarshalStrict([]byte(stack), &shop.Spec)).To(Succeed())
	// An AppService with the same name, whose pods do not belong to the stack.
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

// fixture runs the command.
type fixture struct {
	*harness.World
	kubeconfig string
	shop       *appsapi.AppStack
	kubelet    *httptest.Server
}

// serveTwoLines serves the log of a container.
func serveTwoLines(w http.ResponseWriter, r *http.Request, pod, container string) {
	if r.URL.Query().Get("timestamps") != "true" {
		http.NotFound(w, r)
		return
	}
	fmt.Fprintf(w, "2026-01-02T03:04:05.1Z %s begins\n2026-01-02T03:04:05.2Z %s works, tail %s\n", pod, container, r.URL.Query().Get("tailLines"))
}

// syncBuffer can be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *syncBuffer) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(b)
}

// String returns the output without progress messages, which depend on timing.
func (o *syncBuffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return golden.StripProgress(o.Buffer.String())
}

// sortedLines returns the sorted lines with pod names replaced, because they are random.
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
	// The log of a new pod is read from its beginning.
	g.Eventually(out.sortedLines, "30s").Should(Equal([]string{"web/POD app  app works, tail ", one[0], one[0], one[1], one[1], one[1]}))
	stop()
	g.Eventually(done, "10s").Should(Receive(BeNil()))
}

func (p *fixture) testErrors(t *testing.T) {
	cases := map[string]struct {
		args         []string
		want, errOut string
	}{
		"unknown component": {args: []string{"appstack/shop", "--component", "api"}, want: "AppStack " + p.NS + "/shop has no component \"api\"; it has db, web"},
		"ambiguous name":    {args: []string{"shop"}, want: "several applications in namespace " + p.NS + " are named shop; specify the kind: appstack/shop or appservice/shop"},
		"unknown container": {args: []string{"appstack/shop", "-c", "sidecar"}, want: "AppStack " + p.NS + "/shop has no container \"sidecar\"; there is app"},
		"unknown container of a component": {args: []string{"appstack/shop", "--component", "db", "-c", "sidecar"},
			want: "Component \"db\" of AppStack " + p.NS + "/shop has no container \"sidecar\"; there is app"},
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
