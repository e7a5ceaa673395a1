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
	namespaces = 4
	creators   = 8 // goroutines that create AppServices
	patience   = 5 * time.Minute
	calm       = 2 * time.Second // lets a control plane that has just started come to rest
)

// controllerManagerArgs keep the controller-manager from being what is measured: its
// defaults are made for a machine that has other things to do.
var controllerManagerArgs = []string{
	"--kube-api-qps=2000", "--kube-api-burst=2200", "--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50",
}

// stage is a fresh control plane with our kinds, and a driver.
type stage struct {
	testing.TB
	client.WithWatch
	plane *controlplane.Plane
	seen  *readyWatch
	// subject is what is declared.
	subject subject
	// op is the operator, in scenarios that are about it alone.
	op *operator.Operator
	// measured is the process whose CPU counts as the contender's; nil if it is the driver.
	measured *controlplane.Process
	thieves  *thieves
	// pprof is where the operator tells what it computes; "" if nobody asks.
	pprof string
}

// subject is a kind of application.
type subject struct {
	list  client.ObjectList
	make  func(i int) client.Object
	ready func(client.Object) bool
}

// appServices are what all contenders that we wrote make.
var appServices = subject{
	list: &appsapi.AppServiceList{}, make: func(i int) client.Object { return newApp(i) },
	ready: func(o client.Object) bool {
		app, ok := o.(*appsapi.AppService)
		return ok && meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady)
	},
}

// flags are those of the last control plane that was measured.
var flags map[string][]string

// noteFlags leaves out what is another one every time: folders, addresses and ports.
func noteFlags(plane *controlplane.Plane) {
	flags = map[string][]string{}
	for _, p := range []*controlplane.Process{plane.Etcd, plane.APIServer, plane.ControllerManager} {
		if p == nil {
			continue
		}
		for _, arg := range p.Args {
			if !strings.Contains(arg, plane.Dir) && !strings.Contains(arg, "127.0.0.1") && !strings.Contains(arg, "-port") {
				flags[p.Name] = append(flags[p.Name], arg)
			}
		}
	}
}

func newStage(t testing.TB, o controlplane.Options) *stage {
	o.ExtraArgs = map[string][]string{"kube-controller-manager": controllerManagerArgs}
	plane := testutil.ControlPlane(t, o)
	if o.Fsync || flags == nil {
		noteFlags(plane)
	}
	ctrl.SetLogger(logr.Discard()) // else it complains about not having one
	operator.Install(t, plane)
	scheme := runtime.NewScheme()
	s := &stage{TB: t, plane: plane, subject: appServices, thieves: watchThieves(t.Context())}
	s.must(clientgoscheme.AddToScheme(scheme))
	s.must(appsapi.AddToScheme(scheme))
	var err error
	s.WithWatch, err = client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	s.must(err)
	s.makeNamespaces(0, namespaces)
	s.acquaint()
	s.seen = s.watchReady()
	return s
}

// acquaint makes kinds that have just been defined known to the garbage collector of the controller-manager, by starting it
// again. It looks for new ones twice a minute, and until then asks for every owner of such a kind again and again.
// No cluster in use is like that, and how much of it falls into a measurement is chance.
func (s *stage) acquaint() {
	s.Helper()
	if manager := s.plane.ControllerManager; manager != nil {
		s.must(manager.Stop(10 * time.Second))
		s.must(manager.Start())
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// namespace is one of four, and of four others after every 4,000: a namespace is not for more
// than a thousand.
func namespace(i int) string {
	return fmt.Sprintf("bench-%d", i%namespaces+i/(1000*namespaces)*namespaces)
}

// makeNamespaces makes those of some AppServices.
func (s *stage) makeNamespaces(from, to int) {
	s.Helper()
	made := map[string]bool{}
	for i := from; i < to; i++ {
		name := namespace(i)
		if made[name] {
			continue
		}
		made[name] = true
		err := s.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		if !apierrors.IsAlreadyExists(err) {
			s.must(err)
		}
	}
}

// newApp has no pods: what a node does is not what is measured.
func newApp(i int) *appsapi.AppService {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(i), Name: fmt.Sprintf("app-%05d", i)}}
	app.Spec.Image = "shop/web:1"
	app.Spec.Replicas = new(int32(0))
	app.Spec.Ports = []appsapi.Port{{Name: "http", Port: 80, TargetPort: 8080}}
	return app
}

// createApps creates AppServices in order and hands each one on as soon as it exists.
func (s *stage) createApps(from, to int, created func(*appsapi.AppService)) {
	s.createAll(from, to, func(o client.Object) { created(o.(*appsapi.AppService)) })
}

// createAll creates applications in order and hands each one on as soon as it exists.
func (s *stage) createAll(from, to int, created func(client.Object)) {
	var next atomic.Int64
	next.Store(int64(from))
	var group sync.WaitGroup
	for range creators {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				app := s.subject.make(i)
				s.seen.begun(app)
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

// complete checks that everything is there.
func (s *stage) complete(apps int) {
	s.Helper()
	s.children(apps)
	s.told(apps)
}

// children checks that there is a Deployment and a Service for each application.
func (s *stage) children(apps int) {
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

// told waits for the last events, which nobody waits for, and checks that all are there.
func (s *stage) told(apps int) {
	s.Helper()
	var of map[string]int
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(calm) {
		of = s.eventsByReason()
		if of["ComponentCreated"] >= apps && of["ComponentReady"] >= apps || time.Now().After(deadline) {
			break
		}
	}
	for _, reason := range []string{"ComponentCreated", "ComponentReady"} {
		if of[reason] != apps {
			s.Errorf("%d events %s, want %d", of[reason], reason, apps)
		}
	}
}

func (s *stage) eventsByReason() map[string]int {
	s.Helper()
	var events eventsv1.EventList
	s.must(s.List(s.Context(), &events))
	of := map[string]int{}
	for i := range events.Items {
		if events.Items[i].Regarding.Kind == "AppService" {
			of[events.Items[i].Reason]++
		}
	}
	return of
}

// readyWatch notes when each AppService became Ready.
type readyWatch struct {
	mu      sync.Mutex
	start   map[string]time.Time
	ready   map[string]time.Duration
	changed chan struct{}
}

func (s *stage) watchReady() *readyWatch {
	r := &readyWatch{start: map[string]time.Time{}, ready: map[string]time.Duration{}, changed: make(chan struct{}, 1)}
	list := s.subject.list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is one
	watching(s, list, func(what watch.EventType, app client.Object) {
		if what != watch.Deleted && s.subject.ready(app) {
			r.note(app)
		}
	})
	return r
}

func (r *readyWatch) begun(app client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start[app.GetName()] = time.Now()
}

func (r *readyWatch) note(app client.Object) {
	name := app.GetName()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.ready[name]; !ok {
		r.ready[name] = time.Since(r.start[name])
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// waitAll returns when n are Ready.
func (s *stage) waitAll(n int) {
	s.Helper()
	within := max(patience, time.Duration(n)*2*time.Second) // there are slow ones
	deadline := time.After(within)
	for {
		s.seen.mu.Lock()
		ready := len(s.seen.ready)
		s.seen.mu.Unlock()
		if ready >= n {
			return
		}
		select {
		case <-s.seen.changed:
		case <-deadline:
			s.Fatalf("%d of %d are Ready after %s", ready, n, within)
		}
	}
}
