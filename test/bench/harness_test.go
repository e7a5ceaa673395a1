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
	settleTime     = 2 * time.Second // time for a new control plane to become idle
)

// controllerManagerArgs increase the throughput of the controller-manager, so that it does not limit the measurement.
var controllerManagerArgs = []string{
	"--kube-api-qps=2000", "--kube-api-burst=2200", "--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50",
}

// harness is a new control plane with the CRDs installed, and a driver.
type harness struct {
	testing.TB
	client.WithWatch
	plane     *controlplane.Plane
	readiness *readyTracker
	// kind is the kind of applications.
	kind applicationKind
	// op is the operator, in scenarios without contenders.
	op *operator.Operator
	// measuredProcess is the process of the contender; nil if it is the driver.
	measuredProcess *controlplane.Process
	stealMonitor    *stealMonitor
	// pprofAddress is the address for profiles of the operator; "" disables them.
	pprofAddress string
}

type applicationKind struct {
	list      client.ObjectList
	newObject func(i int) client.Object
	isReady   func(client.Object) bool
}

// appServiceKind is the kind of all contenders except kro.
var appServiceKind = applicationKind{
	list: &appsapi.AppServiceList{}, newObject: func(i int) client.Object { return newApp(i) },
	isReady: func(o client.Object) bool {
		app, ok := o.(*appsapi.AppService)
		return ok && meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady)
	},
}

// controlPlaneFlags are the flags of the last measured control plane.
var controlPlaneFlags map[string][]string

// recordControlPlaneFlags drops values that differ between runs: directories, addresses and ports.
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
	ctrl.SetLogger(logr.Discard()) // otherwise it logs a warning
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

// restartControllerManager makes newly defined kinds known to the garbage collector. It discovers kinds twice a minute,
// and until then looks up every owner of such a kind repeatedly, which would distort the measurement at random.
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

// namespaceFor returns one of four namespaces, and four others for every 4,000 applications: a namespace has at most a
// thousand.
func namespaceFor(i int) string {
	return fmt.Sprintf("bench-%d", i%namespaceCount+i/(1000*namespaceCount)*namespaceCount)
}

// createNamespaces creates the namespaces of some AppServices.
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

// newApp returns an application without pods: nodes are not measured.
func newApp(i int) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceFor(i), Name: fmt.Sprintf("app-%05d", i)}}
	app.Spec.Image = "shop/web:1"
	app.Spec.Replicas = new(int32(0))
	app.Spec.Ports = []appsapi.Port{{Name: "http", Port: 80, TargetPort: 8080}}
	return app
}

// createApps creates AppServices in order and passes each one on as soon as it exists.
func (s *harness) createApps(from, to int, created func(*appsapi.AppService)) {
	s.createObjects(from, to, func(o client.Object) { created(o.(*appsapi.AppService)) })
}

// createObjects creates applications in order and passes each one on as soon as it exists.
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

// verifyComplete checks that all objects exist.
func (s *harness) verifyComplete(apps int) {
	s.Helper()
	s.verifyChildren(apps)
	s.verifyEvents(apps)
}

// verifyChildren checks that each application has a Deployment and a Service.
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
			s.Errorf("got %d of %T, want %d", n, list, apps)
		}
	}
}

// verifyEvents waits for asynchronous events and checks that all exist.
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
			s.Errorf("got %d events %s, want %d", counts[reason], reason, apps)
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

// readyTracker records when each AppService became Ready.
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

// waitAllReady waits until n are Ready.
func (s *harness) waitAllReady(n int) {
	s.Helper()
	timeout := max(waitTimeout, time.Duration(n)*2*time.Second) // some contenders are slow
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
