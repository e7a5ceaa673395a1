package bench

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	namespaceCount = 4
	createWorkers  = 8 // goroutines that create AppServices
	waitTimeout    = 5 * time.Minute
	settleTime     = 2 * time.Second // lets a control plane that has just started come to rest
)

// controllerManagerArgs keep the controller-manager from being what is measured: its
// defaults are made for a machine that has other things to do.
var controllerManagerArgs = []string{
	"--kube-api-qps=2000", "--kube-api-burst=2200", "--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50",
}

// harness is a fresh control plane with our kinds, and a driver.
type harness struct {
	testing.TB
	client.WithWatch
	plane     *controlplane.Plane
	readiness *readyTracker
	// kind is what is declared.
	kind applicationKind
	// op is the operator, in scenarios that are about it alone.
	op *operator.Operator
	// measuredProcess is the process whose CPU counts as the contender's; nil if it is the driver.
	measuredProcess *controlplane.Process
	stealMonitor    *stealMonitor
	// pprofAddress is where the operator tells what it computes; "" if nobody asks.
	pprofAddress string
}

// applicationKind is a kind of application.
type applicationKind struct {
	list      client.ObjectList
	newObject func(i int) client.Object
	isReady   func(client.Object) bool
}

// appServiceKind are what all contenders that we wrote make.
var appServiceKind = applicationKind{
	list: &appsapi.AppServiceList{}, newObject: func(i int) client.Object { return newApp(i) },
	isReady: func(o client.Object) bool {
		app, ok := o.(*appsapi.AppService)
		return ok && meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady)
	},
}

// controlPlaneFlags are those of the last control plane that was measured.
var controlPlaneFlags map[string][]string

// recordControlPlaneFlags leaves out what is another one every time: folders, addresses and ports.
func recordControlPlaneFlags(plane *controlplane.Plane) {
	controlPlaneFlags = map[string][]string{}
	for _, p := range []*controlplane.Process{plane.Etcd, plane.APIServer, plane.ControllerManager} {
		if p == nil {
			continue
		}
		for _, arg := range p.Args {
			if !strings.Contains(arg, plane.Dir) && !strings.Contains(arg, "127.0.0.1") && !strings.Contains(arg, "-port") {
				controlPlaneFlags[p.Name] = append(controlPlaneFlags[p.Name], arg)
			}
		}
	}
}

func newHarness(t testing.TB, o controlplane.Options) *harness {
	o.ExtraArgs = map[string][]string{"kube-controller-manager": controllerManagerArgs}
	plane := testutil.ControlPlane(t, o)
	if o.Fsync || controlPlaneFlags == nil {
		recordControlPlaneFlags(plane)
	}
	ctrl.SetLogger(logr.Discard()) // else it complains about not having one
	operator.Install(t, plane)
	scheme := runtime.NewScheme()
	s := &harness{TB: t, plane: plane, kind: appServiceKind, stealMonitor: startStealMonitor(t.Context())}
	s.must(clientgoscheme.AddToScheme(scheme))
	s.must(appsapi.AddToScheme(scheme))
	var err error
	s.WithWatch, err = client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	s.must(err)
	s.createNamespaces(0, namespaceCount)
	s.restartControllerManager()
	s.readiness = s.watchReady()
	return s
}

// restartControllerManager makes kinds that have just been defined known to the garbage collector of the controller-manager, by starting it
// again. It looks for new ones twice a minute, and until then asks for every owner of such a kind again and again.
// No cluster in use is like that, and how much of it falls into a measurement is chance.
func (s *harness) restartControllerManager() {
	s.Helper()
	if manager := s.plane.ControllerManager; manager != nil {
		s.must(manager.Stop(10 * time.Second))
		s.must(manager.Start())
	}
}

func (s *harness) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// namespaceFor is one of four, and of four others after every 4,000: a namespace is not for more
// than a thousand.
func namespaceFor(i int) string {
	return fmt.Sprintf("bench-%d", i%namespaceCount+i/(1000*namespaceCount)*namespaceCount)
}

// createNamespaces makes those of some AppServices.
func (s *harness) createNamespaces(from, to int) {
	s.Helper()
	done := map[string]bool{}
	for i := from; i < to; i++ {
		name := namespaceFor(i)
		if done[name] {
			continue
		}
		done[name] = true
		err := s.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if !apierrors.IsAlreadyExists(err) {
			s.must(err)
		}
	}
}

// newApp has no pods: what a node does is not what is measured.
func newApp(i int) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceFor(i), Name: fmt.Sprintf("app-%05d", i)}}
	app.Spec.Image = "shop/web:1"
	app.Spec.Replicas = new(int32(0))
	app.Spec.Ports = []appsapi.Port{{Name: "http", Port: 80, TargetPort: 8080}}
	return app
}

// createApps creates AppServices in order and hands each one on as soon as it exists.
func (s *harness) createApps(from, to int, created func(*appsapi.AppService)) {
	s.createObjects(from, to, func(o client.Object) { created(o.(*appsapi.AppService)) })
}

// createObjects creates applications in order and hands each one on as soon as it exists.
func (s *harness) createObjects(from, to int, created func(client.Object)) {
	var next atomic.Int64
	next.Store(int64(from))
	var group sync.WaitGroup
	for range createWorkers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				app := s.kind.newObject(i)
				s.readiness.markStarted(app)
				if err := s.Create(s.Context(), app); err != nil {
					s.Error(err)
					return
				}
				created(app)
			}
		})
	}
	group.Wait()
}

// verifyComplete checks that everything is there.
func (s *harness) verifyComplete(apps int) {
	s.Helper()
	s.verifyChildren(apps)
	s.verifyEvents(apps)
}

// verifyChildren checks that there is a Deployment and a Service for each application.
func (s *harness) verifyChildren(apps int) {
	s.Helper()
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		s.must(s.List(s.Context(), list))
		n := 0
		s.must(meta.EachListItem(list, func(o runtime.Object) error {
			if strings.HasPrefix(o.(client.Object).GetNamespace(), "bench-") {
				n++
			}
			return nil
		}))
		if n != apps {
			s.Errorf("%d of %T, want %d", n, list, apps)
		}
	}
}

// verifyEvents waits for the last events, which nobody waits for, and checks that all are there.
func (s *harness) verifyEvents(apps int) {
	s.Helper()
	var counts map[string]int
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(settleTime) {
		counts = s.eventsByReason()
		if counts["ComponentCreated"] >= apps && counts["ComponentReady"] >= apps || time.Now().After(deadline) {
			break
		}
	}
	for _, reason := range []string{"ComponentCreated", "ComponentReady"} {
		if counts[reason] != apps {
			s.Errorf("%d events %s, want %d", counts[reason], reason, apps)
		}
	}
}

func (s *harness) eventsByReason() map[string]int {
	s.Helper()
	var events eventsv1.EventList
	s.must(s.List(s.Context(), &events))
	counts := map[string]int{}
	for i := range events.Items {
		if events.Items[i].Regarding.Kind == "AppService" {
			counts[events.Items[i].Reason]++
		}
	}
	return counts
}

// readyTracker notes when each AppService became Ready.
type readyTracker struct {
	mu        sync.Mutex
	startedAt map[string]time.Time
	latency   map[string]time.Duration
	changed   chan struct{}
}

func (s *harness) watchReady() *readyTracker {
	r := &readyTracker{startedAt: map[string]time.Time{}, latency: map[string]time.Duration{}, changed: make(chan struct{}, 1)}
	list := s.kind.list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is one
	watchObjects(s, list, func(eventType watch.EventType, app client.Object) {
		if eventType != watch.Deleted && s.kind.isReady(app) {
			r.markReady(app)
		}
	})
	return r
}

func (r *readyTracker) markStarted(app client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.startedAt[app.GetName()] = time.Now()
}

func (r *readyTracker) markReady(app client.Object) {
	name := app.GetName()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.latency[name]; !ok {
		r.latency[name] = time.Since(r.startedAt[name])
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// waitAllReady returns when n are Ready.
func (s *harness) waitAllReady(n int) {
	s.Helper()
	timeout := max(waitTimeout, time.Duration(n)*2*time.Second) // there are slow ones
	deadline := time.After(timeout)
	for {
		s.readiness.mu.Lock()
		ready := len(s.readiness.latency)
		s.readiness.mu.Unlock()
		if ready >= n {
			return
		}
		select {
		case <-s.readiness.changed:
		case <-deadline:
			s.Fatalf("%d of %d are Ready after %s", ready, n, timeout)
		}
	}
}
