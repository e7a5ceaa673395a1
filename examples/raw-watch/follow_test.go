package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	typed "github.com/holdfast-dev/holdfast/client/clientset/versioned/typed/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

func TestRawWatch(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	t.Run("interruptions", func(t *testing.T) { t.Parallel(); testInterruptions(t, plane.Config) })
	t.Run("quiet", func(t *testing.T) { t.Parallel(); testIdleWatch(t, plane.Config) })
	t.Run("too old", func(t *testing.T) { t.Parallel(); testExpiredVersion(t, plane.Config) })
}

// program is a run of the example, with a client that changes the watched objects.
type program struct {
	*testing.T
	*WithT
	ns   string
	apps typed.AppServiceInterface
	out  *gbytes.Buffer
}

func (p *program) create(names ...string) {
	p.Helper()
	for _, name := range names {
		app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Name: name}}
		app.Spec.Image = "nginx:1.27"
		_, err := p.apps.Create(p.Context(), app, metav1.CreateOptions{})
		p.Expect(err).NotTo(HaveOccurred())
	}
}

func (p *program) edit(name, image string) {
	p.Helper()
	_, err := p.apps.Patch(p.Context(), name, types.MergePatchType, []byte(`{"spec":{"image":"`+image+`"}}`), metav1.PatchOptions{})
	p.Expect(err).NotTo(HaveOccurred())
}

func (p *program) delete(name string) {
	p.Helper()
	p.Expect(p.apps.Delete(p.Context(), name, metav1.DeleteOptions{})).To(Succeed())
}

// expectLine waits for a line after the previously expected ones.
func (p *program) expectLine(line string) {
	p.Helper()
	p.Eventually(p.out).Should(gbytes.Say(strings.ReplaceAll(line, "NS", p.ns) + "\n"))
}

func newProgram(t *testing.T, direct *rest.Config) *program {
	ns := testutil.Namespace(t, direct)
	p := &program{T: t, WithT: NewWithT(t), ns: ns, out: gbytes.NewBuffer(), apps: versioned.NewForConfigOrDie(direct).AppsV1alpha1().AppServices(ns)}
	p.SetDefaultEventuallyTimeout(20 * time.Second)
	return p
}

// start runs the example; the returned function stops it and waits.
func (p *program) start(cfg *rest.Config, watchTimeout time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(p.Context())
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, cfg, p.out, options{namespace: p.ns, pageSize: 1, watchTimeout: watchTimeout})
	}()
	return func() {
		p.Helper()
		cancel()
		p.Eventually(done).Should(Receive(Not(HaveOccurred())))
	}
}

func testInterruptions(t *testing.T, direct *rest.Config) {
	faultProxy, err := proxy.Start(direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = faultProxy.Stop() })
	p := newProgram(t, direct)
	p.create("a", "b")
	stop := p.start(faultProxy.Config, time.Minute)
	watching := func() {
		p.Helper()
		p.Eventually(func() int { return faultProxy.OpenWatches(nil) }).Should(Equal(1))
	}

	p.expectLine(`listed 2 at \d+\nADDED NS/a nginx:1.27\nADDED NS/b nginx:1.27`) // two pages
	p.create("c")
	p.expectLine("ADDED NS/c nginx:1.27")
	p.edit("c", "nginx:1.28")
	p.expectLine("MODIFIED NS/c nginx:1.28")
	p.delete("c")
	p.expectLine("DELETED NS/c")

	// After a broken connection no event is lost or repeated, and there is no new list.
	watching()
	faultProxy.HoldEvents(nil)
	p.create("d")
	p.Expect(faultProxy.CloseWatches(nil)).To(Equal(1))
	faultProxy.ReleaseEvents()
	p.expectLine(`interrupted: read event: unexpected EOF\nADDED NS/d nginx:1.27`)

	// After a longer interruption a, b and d have changed, and there will be no events for these
	// changes.
	watching()
	faultProxy.HoldEvents(nil)
	p.delete("a")
	p.edit("b", "nginx:1.28")
	p.delete("d")
	p.create("d", "e")
	p.Expect(faultProxy.ExpireWatches(nil)).To(Equal(1))
	faultProxy.ReleaseEvents()
	p.expectLine(`interrupted: read event: unexpected EOF\n410 Gone: version is too old, listing again\n` +
		`listed 3 at \d+\nMODIFIED NS/b nginx:1.28\nDELETED NS/d\nADDED NS/d nginx:1.27\nADDED NS/e nginx:1.27\nDELETED NS/a`)
	p.create("f")
	p.expectLine("ADDED NS/f nginx:1.27")
	stop()
	if got := strings.Count(string(p.out.Contents()), "listed"); got != 2 {
		t.Errorf("listed %d times, want 2:\n%s", got, p.out.Contents())
	}
}

// testIdleWatch checks that a watch without events stays current: by bookmarks, and by a new watch when
// the server ends one.
func testIdleWatch(t *testing.T, direct *rest.Config) {
	p := newProgram(t, direct)
	stop := p.start(direct, 4*time.Second)
	p.expectLine(`listed 0 at \d+`)
	p.expectLine(`BOOKMARK \d+`)
	p.expectLine(`watch ended, resuming from \d+`)
	p.create("late")
	p.expectLine("ADDED NS/late nginx:1.27")
	stop()
}

// testExpiredVersion checks the response of a real API server, which reports the error after status
// 200.
func testExpiredVersion(t *testing.T, direct *rest.Config) {
	a, err := newAPI(direct, options{watchTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	// Right after a CRD was installed, the server may respond with Retry-After.
	NewWithT(t).Eventually(func() error {
		return a.watch(t.Context(), "1", func(eventType string, _ *appsapi.AppService) { t.Errorf("got event %s", eventType) })
	}, "20s").Should(Satisfy(func(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }))
}

// TestErrorResponses checks that errors of the API server, and responses of other servers, are
// reported as such.
func TestErrorResponses(t *testing.T) {
	const busy = `{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429,"message":"later","details":{"retryAfterSeconds":7}}`
	for name, tc := range map[string]struct {
		code        int
		body        string
		want        string
		wantBackoff time.Duration
	}{
		"overloaded":     {code: http.StatusTooManyRequests, body: busy, want: "list: later", wantBackoff: 7 * time.Second},
		"load balancer":  {code: http.StatusBadGateway, body: "<html>", want: "list: the server returned 502 Bad Gateway"},
		"truncated list": {code: http.StatusOK, body: `{"items":[`, want: "list: read page: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			a, err := newAPI(&rest.Config{Host: server.URL}, options{pageSize: 1, watchTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			f := &follower{api: a, out: gbytes.NewBuffer(), known: map[types.NamespacedName]objectVersion{{Namespace: "shop", Name: "web"}: {}}}
			err = f.listAndWatch(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got := f.backoff(err); tc.wantBackoff != 0 && got != tc.wantBackoff {
				t.Errorf("backoff %s, want %s", got, tc.wantBackoff)
			}
			if len(f.known) != 1 {
				t.Error("a failed list reported deletions")
			}
		})
	}
}

// TestBackoffGrowsAndIsBounded checks the backoff while the server is down.
func TestBackoffGrowsAndIsBounded(t *testing.T) {
	f := &follower{}
	for range 50 {
		if got := f.backoff(nil); got > 45*time.Second {
			t.Fatalf("backoff %s", got)
		}
	}
	if got := f.backoff(nil); got < 15*time.Second {
		t.Errorf("backoff after 50 failures is only %s", got)
	}
}
