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

// TestProxy shows on a real API server that what the proxy plays is what a client meets.
func TestProxy(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true,
		ExtraArgs: map[string][]string{"kube-apiserver": {"--etcd-compaction-interval=0"}}})
	direct := kubernetes.NewForConfigOrDie(plane.Config)
	begin := func(t *testing.T) *scene {
		p, err := Start(plane.Config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop() })
		return &scene{WithT: NewWithT(t), Proxy: p, ns: testutil.Namespace(t, plane.Config), direct: direct, through: kubernetes.NewForConfigOrDie(p.Config)}
	}
	for name, play := range map[string]func(*scene, *testing.T){
		"numbers": (*scene).numbers, "answers": (*scene).answers, "order": (*scene).order,
		"watches": (*scene).watches, "past": (*scene).past,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(begin(t), t)
		})
	}
}

type scene struct {
	*WithT
	*Proxy
	ns              string
	direct, through kubernetes.Interface
}

func (s *scene) settings(name, color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}, Data: map[string]string{"color": color}}
}

// put writes through the proxy, or past it, and returns the resourceVersion.
func (s *scene) put(ctx context.Context, by kubernetes.Interface, name, color string) (uint64, error) {
	m, err := by.CoreV1().ConfigMaps(s.ns).Create(ctx, s.settings(name, color), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		m, err = by.CoreV1().ConfigMaps(s.ns).Update(ctx, s.settings(name, color), metav1.UpdateOptions{})
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(m.ResourceVersion, 10, 64)
}

func (s *scene) numbers(t *testing.T) {
	var writes []string
	s.Arm(func(w Write) *Fault {
		writes = append(writes, strconv.Itoa(w.N)+" "+w.String())
		return nil
	})
	ctx, maps := t.Context(), s.through.CoreV1().ConfigMaps(s.ns)
	_, err := s.put(ctx, s.through, "a", "red")
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

func (s *scene) answers(t *testing.T) {
	ctx := t.Context()
	tests := map[string]struct {
		fault Fault
		is    func(error) bool
		there bool
	}{
		"409 not applied":  {Fault{Withheld: true, Code: 409}, apierrors.IsConflict, false},
		"403":              {Fault{Withheld: true, Code: 403}, apierrors.IsForbidden, false},
		"422":              {Fault{Withheld: true, Code: 422}, apierrors.IsInvalid, false},
		"500":              {Fault{Withheld: true, Code: 500}, apierrors.IsInternalError, false},
		"504 applied":      {Fault{Code: 504}, apierrors.IsTimeout, true},
		"504 not applied":  {Fault{Withheld: true, Code: 504}, apierrors.IsTimeout, false},
		"reset":            {Fault{Withheld: true, Reset: true}, notAStatus, false},
		"reset, applied":   {Fault{Reset: true}, notAStatus, true},
		"nothing wrong":    {Fault{}, func(err error) bool { return err == nil }, true},
		"429, once; again": {Fault{Withheld: true, Code: 429}, func(err error) bool { return err == nil }, true}, // client-go tries again by itself
	}
	i := 0
	for name, tc := range tests {
		i++
		object := "answer-" + strconv.Itoa(i)
		var once sync.Once
		s.Arm(func(Write) *Fault {
			var f *Fault
			once.Do(func() { f = &tc.fault })
			return f
		})
		_, err := s.through.CoreV1().ConfigMaps(s.ns).Create(ctx, s.settings(object, "red"), metav1.CreateOptions{})
		s.Expect(tc.is(err)).To(BeTrue(), "%s: %v", name, err)
		_, err = s.direct.CoreV1().ConfigMaps(s.ns).Get(ctx, object, metav1.GetOptions{})
		s.Expect(err == nil).To(Equal(tc.there), "%s: is it there? %v", name, err)
	}
}

func notAStatus(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

// order shows when each function of a fault is called, by what is in the API server then.
func (s *scene) order(t *testing.T) {
	ctx := t.Context()
	there := func() bool {
		_, err := s.direct.CoreV1().ConfigMaps(s.ns).Get(ctx, "order", metav1.GetOptions{})
		return err == nil
	}
	answered := make(chan error, 1)
	type seen struct{ there, answered bool }
	var before, forwarded, after seen
	look := func() seen {
		time.Sleep(50 * time.Millisecond)
		return seen{there(), len(answered) == 1}
	}
	done := make(chan struct{})
	s.Arm(func(Write) *Fault {
		return &Fault{Before: func() { before = look() }, Forwarded: func() { forwarded = look() }, After: func() { after = look(); close(done) }}
	})
	_, err := s.put(ctx, s.through, "order", "red")
	answered <- err
	<-done
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect([]seen{before, forwarded, after}).To(Equal([]seen{{}, {there: true}, {there: true, answered: true}}))
}

// informer follows the ConfigMaps of the namespace through the proxy.
func (s *scene) informer(ctx context.Context) func(name string) string {
	factory := informers.NewSharedInformerFactoryWithOptions(s.through, 0, informers.WithNamespace(s.ns))
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

func (s *scene) write(t *testing.T, name string, colors ...string) (last uint64) {
	t.Helper()
	for _, color := range colors {
		var err error
		last, err = s.put(t.Context(), s.direct, name, color)
		s.Expect(err).NotTo(HaveOccurred())
	}
	return last
}

func (s *scene) watches(t *testing.T) {
	color := s.informer(t.Context())
	s.write(t, "w", "red")
	s.Eventually(color).WithArguments("w").Should(Equal("red"))

	s.Hold(Only("configmaps"))
	s.write(t, "w", "green")
	s.Consistently(color, "300ms").WithArguments("w").Should(Equal("red"), "held back")
	s.Release()
	s.Eventually(color).WithArguments("w").Should(Equal("green"))

	s.Hold(Only("secrets"))
	s.write(t, "w", "blue")
	s.Eventually(color).WithArguments("w").Should(Equal("blue"), "another kind is held back")
	s.Release()

	s.Delay(600 * time.Millisecond)
	s.write(t, "w", "black")
	s.Consistently(color, "300ms").WithArguments("w").Should(Equal("blue"), "late")
	s.Eventually(color, "3s").WithArguments("w").Should(Equal("black"))
	s.Delay(0)

	s.Expect(s.Cut(nil)).To(Equal(1))
	s.write(t, "w", "white")
	s.Eventually(color, "5s").WithArguments("w").Should(Equal("white"), "cut, and watched again")

	s.Hold(nil)
	s.write(t, "lost", "red")
	s.Expect(s.direct.CoreV1().ConfigMaps(s.ns).Delete(t.Context(), "w", metav1.DeleteOptions{})).To(Succeed())
	s.Expect(s.Expire(nil)).To(Equal(1))
	s.Release()
	s.Eventually(color, "10s").WithArguments("w").Should(Equal("none"), "the deletion is found by a list")
	s.Expect(color("lost")).To(Equal("red"))
}

func (s *scene) past(t *testing.T) {
	old := s.write(t, "p", "red", "green")
	s.write(t, "p", "blue")
	later := s.informer(t.Context())
	s.Eventually(later).WithArguments("p").Should(Equal("blue"))

	s.Freeze(old, nil)
	s.Eventually(later, "10s").WithArguments("p").Should(Equal("green"), "one that runs goes back")
	born := s.informer(t.Context())
	s.Expect(born("p")).To(Equal("green"), "one that starts begins there")
	s.write(t, "p", "black")
	s.Consistently(born, "300ms").WithArguments("p").Should(Equal("green"))
	m, err := s.through.CoreV1().ConfigMaps(s.ns).Get(t.Context(), "p", metav1.GetOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(m.Data["color"]).To(Equal("black"), "a read of one object is the truth")

	s.Thaw()
	for _, color := range []func(string) string{later, born} {
		s.Eventually(color, "10s").WithArguments("p").Should(Equal("black"))
	}
}

func TestOnly(t *testing.T) {
	for resource, want := range map[string]bool{"pods": true, "jobs.batch": true, "jobs": false} {
		if got := Only("pods", "jobs.batch")(resource); got != want {
			t.Errorf("%s: %t", resource, got)
		}
	}
	if !Which(nil).has("anything") || slices.Contains([]bool{true}, Only().has("pods")) {
		t.Error("nil is everything, nothing is nothing")
	}
}

// TestCutThenReleased shows that what was held back when a watch was cut is never seen, even
// if holding ends in the same moment.
func TestCutThenReleased(t *testing.T) {
	for range 20_000 {
		p := &Proxy{}
		ctx, end := context.WithCancel(t.Context())
		p.watches.begin(&stream{resource: "configmaps", end: end})
		p.Hold(nil)
		delivered := make(chan bool, 1)
		go func() { delivered <- p.watches.await(ctx, "configmaps", time.Now()) == nil }()
		p.Expire(nil)
		p.Release()
		if <-delivered {
			t.Fatal("delivered after the cut")
		}
	}
}
