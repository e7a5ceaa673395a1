package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
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
	op    *operator.Operator // nil when none is measured
}

func newStage(t testing.TB, audit bool) *stage {
	plane := testutil.ControlPlane(t, controlplane.Options{
		Audit: audit, ExtraArgs: map[string][]string{"kube-controller-manager": controllerManagerArgs},
	})
	ctrl.SetLogger(logr.Discard()) // else it complains about not having one
	operator.Install(t, plane)
	scheme := runtime.NewScheme()
	s := &stage{TB: t, plane: plane}
	s.must(clientgoscheme.AddToScheme(scheme))
	s.must(appsapi.AddToScheme(scheme))
	var err error
	s.WithWatch, err = client.NewWithWatch(plane.Config, client.Options{Scheme: scheme})
	s.must(err)
	for i := range namespaces {
		s.must(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace(i)}}))
	}
	s.seen = s.watchReady()
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func namespace(i int) string { return fmt.Sprintf("bench-%d", i%namespaces) }

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
	var next atomic.Int64
	next.Store(int64(from))
	var group sync.WaitGroup
	for range creators {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < to; i = int(next.Add(1)) - 1 {
				app := newApp(i)
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
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &corev1.ServiceList{}} {
		s.must(s.List(s.Context(), list, client.HasLabels{"apps.holdfast.dev/owner-uid"}))
		if n := meta.LenList(list); n != apps {
			s.Errorf("%d of %T, want %d", n, list, apps)
		}
	}
	var events eventsv1.EventList
	s.must(s.List(s.Context(), &events))
	of := map[string]int{}
	for i := range events.Items {
		if events.Items[i].Regarding.Kind == "AppService" {
			of[events.Items[i].Reason]++
		}
	}
	for _, reason := range []string{"ComponentCreated", "ComponentReady"} {
		if of[reason] != apps {
			s.Errorf("%d events %s, want %d", of[reason], reason, apps)
		}
	}
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
	stream, err := s.Watch(s.Context(), &appsapi.AppServiceList{})
	s.must(err)
	s.Cleanup(stream.Stop)
	go func() {
		for e := range stream.ResultChan() {
			if app, ok := e.Object.(*appsapi.AppService); ok && e.Type != watch.Deleted {
				r.note(app)
			}
		}
	}()
	return r
}

func (r *readyWatch) begun(app *appsapi.AppService) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.start[app.Name] = time.Now()
}

func (r *readyWatch) note(app *appsapi.AppService) {
	if !meta.IsStatusConditionTrue(app.Status.Conditions, appsapi.ConditionReady) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.ready[app.Name]; !ok {
		r.ready[app.Name] = time.Since(r.start[app.Name])
		select {
		case r.changed <- struct{}{}:
		default:
		}
	}
}

// waitAll returns when n are Ready.
func (s *stage) waitAll(n int) {
	s.Helper()
	deadline := time.After(patience)
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
			s.Fatalf("%d of %d are Ready after %s", ready, n, patience)
		}
	}
}
