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
	t.Run("quiet", func(t *testing.T) { t.Parallel(); testQuiet(t, plane.Config) })
	t.Run("too old", func(t *testing.T) { t.Parallel(); testTooOld(t, plane.Config) })
}

// program is one run of the example and somebody who changes what it follows.
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

// says waits for a line that comes after those asked for before.
func (p *program) says(line string) {
	p.Helper()
	p.Eventually(p.out).Should(gbytes.Say(strings.ReplaceAll(line, "NS", p.ns) + "\n"))
}

func newProgram(t *testing.T, direct *rest.Config) *program {
	ns := testutil.Namespace(t, direct)
	p := &program{T: t, WithT: NewWithT(t), ns: ns, out: gbytes.NewBuffer(), apps: versioned.NewForConfigOrDie(direct).AppsV1alpha1().AppServices(ns)}
	p.SetDefaultEventuallyTimeout(20 * time.Second)
	return p
}

// start runs the example; the function that it returns ends it and waits.
func (p *program) start(cfg *rest.Config, length time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, cfg, p.out, options{namespace: p.ns, page: 1, length: length}) }()
	return func() {
		p.Helper()
		cancel()
		p.Eventually(ended).Should(Receive(Not(HaveOccurred())))
	}
}

func testInterruptions(t *testing.T, direct *rest.Config) {
	line, err := proxy.Start(direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = line.Stop() })
	p := newProgram(t, direct)
	p.create("a", "b")
	end := p.start(line.Config, time.Minute)
	watching := func() {
		p.Helper()
		p.Eventually(func() int { return line.Watches(nil) }).Should(Equal(1))
	}

	p.says(`listed 2 at \d+\nADDED NS/a nginx:1.27\nADDED NS/b nginx:1.27`) // two pages
	p.create("c")
	p.says("ADDED NS/c nginx:1.27")
	p.edit("c", "nginx:1.28")
	p.says("MODIFIED NS/c nginx:1.28")
	p.delete("c")
	p.says("DELETED NS/c")

	// A cut connection: nothing is lost, nothing is listed, nothing comes twice.
	watching()
	line.Hold(nil)
	p.create("d")
	p.Expect(line.Cut(nil)).To(Equal(1))
	line.Release()
	p.says(`interrupted: read event: unexpected EOF\nADDED NS/d nginx:1.27`)

	// Away for too long: a, b and d are not what they were, and nobody will ever say so.
	watching()
	line.Hold(nil)
	p.delete("a")
	p.edit("b", "nginx:1.28")
	p.delete("d")
	p.create("d", "e")
	p.Expect(line.Expire(nil)).To(Equal(1))
	line.Release()
	p.says(`interrupted: read event: unexpected EOF\n410 Gone: too long ago to go on from, listing again\n` +
		`listed 3 at \d+\nMODIFIED NS/b nginx:1.28\nDELETED NS/d\nADDED NS/d nginx:1.27\nADDED NS/e nginx:1.27\nDELETED NS/a`)
	p.create("f")
	p.says("ADDED NS/f nginx:1.27")
	end()
	if got := strings.Count(string(p.out.Contents()), "listed"); got != 2 {
		t.Errorf("listed %d times, want 2:\n%s", got, p.out.Contents())
	}
}

// testQuiet shows what keeps a watch alive when nothing happens: bookmarks, and the next
// watch when the server ends one.
func testQuiet(t *testing.T, direct *rest.Config) {
	p := newProgram(t, direct)
	end := p.start(direct, 4*time.Second)
	p.says(`listed 0 at \d+`)
	p.says(`BOOKMARK \d+`)
	p.says(`watch ended, going on from \d+`)
	p.create("late")
	p.says("ADDED NS/late nginx:1.27")
	end()
}

// testTooOld hears from the API server itself: it refuses after it has answered 200.
func testTooOld(t *testing.T, direct *rest.Config) {
	a, err := newAPI(direct, options{length: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	// Right after a CRD was installed the server asks to come back later.
	NewWithT(t).Eventually(func() error {
		return a.watch(t.Context(), "1", func(what string, _ *appsapi.AppService) { t.Errorf("got event %s", what) })
	}, "20s").Should(Satisfy(func(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }))
}

// TestAnswers shows that a server that says no, or that is not an API server, is told as
// such.
func TestAnswers(t *testing.T) {
	const busy = `{"kind":"Status","status":"Failure","reason":"TooManyRequests","code":429,"message":"later","details":{"retryAfterSeconds":7}}`
	for name, tc := range map[string]struct {
		code      int
		body      string
		want      string
		wantPause time.Duration
	}{
		"busy":            {code: http.StatusTooManyRequests, body: busy, want: "list: later", wantPause: 7 * time.Second},
		"a load balancer": {code: http.StatusBadGateway, body: "<html>", want: "list: the server answers 502 Bad Gateway"},
		"half a list":     {code: http.StatusOK, body: `{"items":[`, want: "list: read page: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			a, err := newAPI(&rest.Config{Host: server.URL}, options{page: 1, length: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			f := &follower{api: a, out: gbytes.NewBuffer(), known: map[types.NamespacedName]seen{{Namespace: "shop", Name: "web"}: {}}}
			err = f.step(t.Context())
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if got := f.pause(err); tc.wantPause != 0 && got != tc.wantPause {
				t.Errorf("waits %s, want %s", got, tc.wantPause)
			}
			if len(f.known) != 1 {
				t.Error("a list that failed made something look deleted")
			}
		})
	}
}

// TestPauseGrows shows that a server that is down is not asked more and more.
func TestPauseGrows(t *testing.T) {
	f := &follower{}
	for range 50 {
		if got := f.pause(nil); got > 45*time.Second {
			t.Fatalf("waits %s", got)
		}
	}
	if got := f.pause(nil); got < 15*time.Second {
		t.Errorf("after 50 failures it waits only %s", got)
	}
}
