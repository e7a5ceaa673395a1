package proxy

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// TestProxyAgainstAPIServer checks the faults of the proxy with a real API server.
func TestProxyAgainstAPIServer(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true,
		ExtraArgs: map[string][]string{"kube-apiserver": {"--etcd-compaction-interval=0"}}})
	directClient := kubernetes.NewForConfigOrDie(plane.Config)
	newFixture := func(t *testing.T) *proxyFixture {
		p, err := Start(plane.Config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		return &proxyFixture{WithT: NewWithT(t), Proxy: p, ns: testutil.Namespace(t, plane.Config), directClient: directClient, proxiedClient: kubernetes.NewForConfigOrDie(p.Config)}
	}
	for name, run := range map[string]func(*proxyFixture, *testing.T){
		"numbers": (*proxyFixture).numbersWrites, "answers": (*proxyFixture).returnsFaults, "order": (*proxyFixture).callsHooksInOrder,
		"watches": (*proxyFixture).controlsWatches, "past": (*proxyFixture).servesStaleState,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newFixture(t), t)
		})
	}
}

type proxyFixture struct {
	*WithT
	*Proxy
	ns                          string
	directClient, proxiedClient kubernetes.Interface
}

func (s *proxyFixture) configMap(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Data: map[string]string{"color": color}}
}

// upsert writes through the proxy or directly, and returns the resourceVersion.
func (s *proxyFixture) upsert(ctx context.Context, clientset kubernetes.Interface, name, color string) (uint64, error) {
	m, err := clientset.CoreV1().ConfigMaps(s.ns).Create(ctx, s.configMap(name, color), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		m, err = clientset.CoreV1().ConfigMaps(s.ns).Update(ctx, s.configMap(name, color), metav1.UpdateOptions{})
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(m.ResourceVersion, 10, 64)
}

func (s *proxyFixture) numbersWrites(t *testing.T) {
	var writes []string
	s.InjectFaults(func(w Write) *Fault {
		writes = append(writes, strconv.Itoa(w.Sequence)+" "+w.String())
		return nil
	})
	ctx, maps := t.Context(), s.proxiedClient.CoreV1().ConfigMaps(s.ns)
	_, err := s.upsert(ctx, s.proxiedClient, "a", "red")
	s.Expect(err).NotTo(HaveOccurred())
	for range 2 {
		_, err = maps.Patch(ctx, "a", types.ApplyPatchType, []byte(`{"apiVersion":"v1","kind":"ConfigMap","data":{"x":"y"}}`), metav1.PatchOptions{FieldManager: "test"})
		s.Expect(err).NotTo(HaveOccurred())
	}
	_, err = maps.Get(ctx, "a", metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(maps.Delete(ctx, "a", metav1.DeleteOptions{})).To(Succeed())
	s.Expect(writes).To(Equal([]string{"1 create:configmaps:1", "2 apply:configmaps/a:1", "3 apply:configmaps/a:2", "4 delete:configmaps/a:1"}))
}

func (s *proxyFixture) returnsFaults(t *testing.T) {
	ctx := t.Context()
	tests := map[string]struct {
		fault      Fault
		wantError  func(error) bool
		wantExists bool
	}{
		"409 not applied":        {Fault{SkipForward: true, Code: 409}, apierrors.IsConflict, false},
		"403":                    {Fault{SkipForward: true, Code: 403}, apierrors.IsForbidden, false},
		"422":                    {Fault{SkipForward: true, Code: 422}, apierrors.IsInvalid, false},
		"500":                    {Fault{SkipForward: true, Code: 500}, apierrors.IsInternalError, false},
		"504 applied":            {Fault{Code: 504}, apierrors.IsTimeout, true},
		"504 not applied":        {Fault{SkipForward: true, Code: 504}, apierrors.IsTimeout, false},
		"reset":                  {Fault{SkipForward: true, Reset: true}, isNotAPIStatus, false},
		"reset, applied":         {Fault{Reset: true}, isNotAPIStatus, true},
		"no fault":               {Fault{}, func(err error) bool { return err == nil }, true},
		"429 once, then retried": {Fault{SkipForward: true, Code: 429}, func(err error) bool { return err == nil }, true}, // client-go retries automatically
	}
	i := 0
	for name, tc := range tests {
		i++
		object := "answer-" + strconv.Itoa(i)
		var once sync.Once
		s.InjectFaults(func(Write) *Fault {
			var f *Fault
			once.Do(func() { f = &tc.fault })
			return f
		})
		_, err := s.proxiedClient.CoreV1().ConfigMaps(s.ns).Create(ctx, s.configMap(object, "red"), metav1.CreateOptions{})
		s.Expect(tc.wantError(err)).To(BeTrue(), "%s: %v", name, err)
		_, err = s.directClient.CoreV1().ConfigMaps(s.ns).Get(ctx, object, metav1.GetOptions{})
		s.Expect(err == nil).To(Equal(tc.wantExists), "%s: %v", name, err)
	}
}

func isNotAPIStatus(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// callsHooksInOrder checks the state of the API server at each hook of a fault.
func (s *proxyFixture) callsHooksInOrder(t *testing.T) {
	ctx := t.Context()
	exists := func() bool {
		_, err := s.directClient.CoreV1().ConfigMaps(s.ns).Get(ctx, "order", metav1.GetOptions{})
		return err == nil
	}
	answered := make(chan error, 1)
	type observation struct{ exists, answered bool }
	var before, forwarded, after observation
	observe := func() observation {
		time.Sleep(50 * time.Millisecond) // a hook that is called too early would be called now
		return observation{exists(), len(answered) == 1}
	}
	done := make(chan struct{})
	s.InjectFaults(func(Write) *Fault {
		return &Fault{BeforeForward: func() { before = observe() }, AfterForward: func() { forwarded = observe() }, AfterResponse: func() { after = observe(); close(done) }}
	})
	_, err := s.upsert(ctx, s.proxiedClient, "order", "red")
	answered <- err
	<-done
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect([]observation{before, forwarded, after}).To(Equal([]observation{{}, {exists: true}, {exists: true, answered: true}}))
}

// startInformer watches the ConfigMaps of the namespace through the proxy.
func (s *proxyFixture) startInformer(ctx context.Context) func(name string) string {
	factory := informers.NewSharedInformerFactoryWithOptions(s.proxiedClient, 0, informers.WithNamespace(s.ns))
	lister := factory.Core().V1().ConfigMaps().Lister().ConfigMaps(s.ns)
	factory.StartWithContext(ctx)
	factory.WaitForCacheSync(ctx.Done())
	return func(name string) string {
		m, err := lister.Get(name)
		if err != nil {
			return "none"
		}
		return m.Data["color"]
	}
}

func (s *proxyFixture) writeDirectly(t *testing.T, name string, colors ...string) (last uint64) {
	t.Helper()
	for _, color := range colors {
		var err error
		last, err = s.upsert(t.Context(), s.directClient, name, color)
		s.Expect(err).NotTo(HaveOccurred())
	}
	return last
}

func (s *proxyFixture) controlsWatches(t *testing.T) {
	color := s.startInformer(t.Context())
	s.writeDirectly(t, "w", "red")
	s.Eventually(color).WithArguments("w").Should(Equal("red"))

	s.HoldEvents(Only("configmaps"))
	s.writeDirectly(t, "w", "green")
	s.Consistently(color, "300ms").WithArguments("w").Should(Equal("red"), "held back")
	s.ReleaseEvents()
	s.Eventually(color).WithArguments("w").Should(Equal("green"))

	s.HoldEvents(Only("secrets"))
	s.writeDirectly(t, "w", "blue")
	s.Eventually(color).WithArguments("w").Should(Equal("blue"), "only another kind is held back")
	s.ReleaseEvents()

	s.DelayEvents(600 * time.Millisecond)
	s.writeDirectly(t, "w", "black")
	s.Consistently(color, "300ms").WithArguments("w").Should(Equal("blue"), "delayed")
	s.Eventually(color, "3s").WithArguments("w").Should(Equal("black"))
	s.DelayEvents(0)

	s.Expect(s.CloseWatches(nil)).To(Equal(1))
	s.writeDirectly(t, "w", "white")
	s.Eventually(color, "5s").WithArguments("w").Should(Equal("white"), "closed, then watched again")

	s.HoldEvents(nil)
	s.writeDirectly(t, "lost", "red")
	s.Expect(s.directClient.CoreV1().ConfigMaps(s.ns).Delete(t.Context(), "w", metav1.DeleteOptions{})).To(Succeed())
	s.Expect(s.ExpireWatches(nil)).To(Equal(1))
	s.ReleaseEvents()
	s.Eventually(color, "10s").WithArguments("w").Should(Equal("none"), "a list detects the deletion")
	s.Expect(color("lost")).To(Equal("red"))
}

func (s *proxyFixture) servesStaleState(t *testing.T) {
	old := s.writeDirectly(t, "p", "red", "green")
	s.writeDirectly(t, "p", "blue")
	runningInformer := s.startInformer(t.Context())
	s.Eventually(runningInformer).WithArguments("p").Should(Equal("blue"))

	s.ServeStale(old, nil)
	s.Eventually(runningInformer, "10s").WithArguments("p").Should(Equal("green"), "a running informer goes back")
	newInformer := s.startInformer(t.Context())
	s.Expect(newInformer("p")).To(Equal("green"), "a new informer starts there")
	s.writeDirectly(t, "p", "black")
	s.Consistently(newInformer, "300ms").WithArguments("p").Should(Equal("green"))
	m, err := s.proxiedClient.CoreV1().ConfigMaps(s.ns).Get(t.Context(), "p", metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(m.Data["color"]).To(Equal("black"), "reads of single objects are current")

	s.ServeLive()
	for _, color := range []func(string) string{runningInformer, newInformer} {
		s.Eventually(color, "10s").WithArguments("p").Should(Equal("black"))
	}
}

func TestResourceFilter(t *testing.T) {
	for resource, want := range map[string]bool{"pods": true, "jobs.batch": true, "jobs": false} {
		if got := Only("pods", "jobs.batch")(resource); got != want {
			t.Errorf("%s: %t", resource, got)
		}
	}
	if !ResourceFilter(nil).matches("anything") || slices.Contains([]bool{true}, Only().matches("pods")) {
		t.Error("nil must match all resources, an empty filter none")
	}
}

// TestClosedWatchDeliversNoHeldEvents checks that events held back by a closed watch are never delivered, even if they
// are released at the same time.
func TestClosedWatchDeliversNoHeldEvents(t *testing.T) {
	for range 20_000 {
		p := &Proxy{}
		ctx, cancel := context.WithCancel(t.Context())
		p.watches.register(&openWatch{resource: "configmaps", cancel: cancel})
		p.HoldEvents(nil)
		delivered := make(chan bool, 1)
		go func() { delivered <- p.watches.waitUntilDeliverable(ctx, "configmaps", time.Now()) == nil }()
		p.ExpireWatches(nil)
		p.ReleaseEvents()
		if <-delivered {
			t.Fatal("event delivered after the watch was closed")
		}
	}
}
