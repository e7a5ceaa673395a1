package apibudget

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	// quietPeriod is the time without requests that ends a row.
	quietPeriod = time.Second
	// waitTimeout is the timeout of all waits.
	waitTimeout = 5 * time.Minute

	slowPodPrefix = "roll-" // name prefix of AppServices with slow pods
	slowPodDelay  = 200 * time.Millisecond
	jobDuration   = 100 * time.Millisecond // run time of a Job
)

var (
	appServices = appsapi.GroupVersion.WithResource("appservices")
	appStacks   = appsapi.GroupVersion.WithResource("appstacks")
)

// harness is the environment of all rows, and their results.
type harness struct {
	*testing.T
	client.Client
	plane   *controlplane.Plane
	log     *audit.Log
	watcher *watcher.Watcher
	op      *operator.Operator
	ns      string
	table   table
}

func newHarness(t *testing.T) *harness {
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	operator.Install(t, plane)
	s := &harness{T: t, plane: plane, ns: testutil.Namespace(t, plane.Config)}
	scheme := runtime.NewScheme()
	var err error
	for _, step := range []func() error{
		func() error { return clientgoscheme.AddToScheme(scheme) },
		func() error { return appsapi.AddToScheme(scheme) },
		func() error { s.Client, err = client.New(plane.Config, client.Options{Scheme: scheme}); return err },
		func() error { s.log, err = audit.Open(plane.AuditLog()); return err },
		func() error {
			s.watcher, err = watcher.Start(t.Context(), plane.Config, appServices, appStacks)
			return err
		},
		func() error {
			_, err = podsim.Start(t.Context(), plane.Config, podsim.WithBehavior(podBehavior))
			return err
		},
	} {
		s.must(step())
	}
	return s
}

func podBehavior(pod *corev1.Pod) podsim.Behavior {
	switch {
	case strings.HasPrefix(pod.Name, slowPodPrefix):
		return podsim.Slow(slowPodDelay)
	case pod.Spec.RestartPolicy == corev1.RestartPolicyNever:
		return podsim.Succeeded().After(jobDuration)
	}
	return podsim.Ready()
}

func (s *harness) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// check reports errors from goroutines, which must not call Fatal.
func (s *harness) check(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

// startOperator starts the operator.
func (s *harness) startOperator(o operator.Options) {
	s.Helper()
	s.op = operator.Start(s, s.plane, o)
}

func (s *harness) markLog() audit.Position {
	s.Helper()
	at, err := s.log.Mark(s.Context(), s.plane.Config)
	s.must(err)
	return at
}

// recordRequests returns the requests of all users while f ran and until the operator was idle.
func (s *harness) recordRequests(f func()) audit.Events {
	s.Helper()
	from := s.markLog()
	f()
	s.waitQuiet()
	all, err := s.log.Since(s.Context(), s.plane.Config, from)
	s.must(err)
	return all
}

// waitQuiet waits until the operator has sent no request for quietPeriod.
func (s *harness) waitQuiet() {
	s.Helper()
	if !s.becomesQuiet(waitTimeout) {
		s.Fatalf("the operator is not idle after %s", waitTimeout)
	}
}

func (s *harness) becomesQuiet(limit time.Duration) bool {
	s.Helper()
	last, end := time.Now(), time.Now().Add(limit)
	from := s.markLog()
	for time.Since(last) < quietPeriod {
		time.Sleep(50 * time.Millisecond) // no event signals the absence of requests
		to := s.markLog()
		events, err := s.log.Between(from, to)
		s.must(err)
		if len(operatorRequests(events)) > 0 {
			last = time.Now()
		}
		if from = to; last.After(end) {
			return false
		}
	}
	return true
}

const appSpec = `
image: shop/web:1
replicas: %d
env: [{name: MODE, value: shop}]
ports: [{name: http, port: 80, targetPort: 8080}]`

// createApp creates an AppService.
func (s *harness) createApp(name string, replicas int) {
	s.Helper()
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	s.check(yaml.UnmarshalStrict(fmt.Appendf(nil, appSpec, replicas), &app.Spec))
	s.check(s.Create(s.Context(), app))
}

// waitReady waits until all applications are Ready in their current generation.
func (s *harness) waitReady(names ...string) {
	s.Helper()
	deadline := time.After(waitTimeout)
	for {
		state := s.watcher.State()
		missing := ""
		for _, name := range names {
			if !isReady(state.Get(resourceOf(name), s.ns+"/"+name)) {
				missing = name
				break
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-deadline:
			s.Errorf("%s is not Ready after %s", missing, waitTimeout)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func isReady(obj *unstructured.Unstructured) bool {
	if obj == nil {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Ready" {
			return c["status"] == "True" && c["observedGeneration"] == obj.GetGeneration()
		}
	}
	return false
}

// checkForbidden checks that no number is low because of missing permissions.
func (s *harness) checkForbidden() {
	s.Helper()
	all, err := s.log.Since(s.Context(), s.plane.Config, 0)
	s.must(err)
	denied := all.By(operator.User).Where(func(e *audit.Event) bool { return e.ResponseStatus.Code == 403 })
	if len(denied) > 0 {
		s.Errorf("the operator lacks permissions:\n%s", denied.Count())
	}
}
