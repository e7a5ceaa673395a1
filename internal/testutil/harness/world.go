package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// World is the namespace of one test.
type World struct {
	*testing.T
	*gomega.WithT
	client.Client
	*Harness
	NS string
}

// NewWorld creates a namespace for one story.
func (s *Harness) NewWorld(t *testing.T) *World {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(s.Plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &World{T: t, WithT: newGomega(t), Client: c, Harness: s, NS: testutil.Namespace(t, s.Plane.Config)}
}

// newGomega polls slowly, because dozens of tests wait at the same time.
func newGomega(t *testing.T) *gomega.WithT {
	g := gomega.NewWithT(t)
	g.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	return g
}

// ForTest returns the same namespace for another test.
func (w *World) ForTest(t *testing.T) *World {
	clone := *w
	clone.T, clone.WithT = t, newGomega(t)
	return &clone
}

// Edit changes an object and retries on conflicts.
func Edit[T client.Object](w *World, obj T, change func(T)) {
	w.Helper()
	w.Eventually(func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return w.Update(w.Context(), obj)
	}, "60s").Should(gomega.Succeed())
}

// ConfirmDelete sets the annotation without which data cannot be deleted.
func ConfirmDelete[T client.Object](w *World, obj T) T {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, appsapi.DefaultKeys.ConfirmDelete))
	w.Expect(w.Patch(w.Context(), obj, patch)).To(gomega.Succeed())
	return obj
}

// Find returns nil if the object does not exist.
func Find[T client.Object](w *World, obj T) T {
	var none T
	err := w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)
	if client.IgnoreNotFound(err) != nil {
		w.Errorf("get: %v", err)
	}
	if err != nil {
		return none
	}
	return obj
}

type application interface {
	client.Object
	ApplicationStatus() *appsapi.ApplicationStatus
}

// Condition returns a condition of the current generation as "status/reason: message".
func (w *World) Condition(app application, conditionType string) string {
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err.Error()
		}
		return "gone"
	}
	status := app.ApplicationStatus()
	c := meta.FindStatusCondition(status.Conditions, conditionType)
	if c == nil {
		return "none"
	}
	if c.ObservedGeneration != app.GetGeneration() || status.ObservedGeneration != app.GetGeneration() {
		return "status of an old generation"
	}
	return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
}

// WaitReady waits until the application is Ready and reconciled.
func (w *World) WaitReady(app application) {
	w.Helper()
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s").
		Should(gomega.Equal("True/Reconciled: Everything runs as declared"))
}

// Events returns the reasons of the events about an object, in order.
func (w *World) Events(kind, name string) []string {
	var list eventsv1.EventList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(gomega.Succeed())
	var reasons []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Kind == kind && e.Regarding.Name == name {
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}

// Requests returns all requests in this namespace while f runs.
func (w *World) Requests(f func()) audit.Events {
	w.Helper()
	ctx := context.WithoutCancel(w.Context())
	from, err := w.AuditLog.Mark(ctx, w.Plane.Config)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	f()
	events, err := w.AuditLog.Since(ctx, w.Plane.Config, from)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	return events.In(w.NS)
}

// OperatorRequests returns the requests of the operator while f runs.
func (w *World) OperatorRequests(f func()) audit.Events {
	w.Helper()
	return w.Requests(f).By(operator.User)
}

// OperatorRequestsWithin returns the operator's requests during changes and for a duration after them.
func (w *World) OperatorRequestsWithin(d time.Duration, changes ...func()) audit.Events {
	w.Helper()
	return w.OperatorRequests(func() {
		for _, change := range changes {
			change()
		}
		time.Sleep(d) // no event shows that nothing happens
	})
}

// ExpectSteadyState checks that a reconciliation without a relevant change writes nothing. It triggers one with a change
// of unmanaged fields.
func (w *World) ExpectSteadyState(app application, children ...client.Object) {
	w.Helper()
	for _, child := range children {
		w.waitRolledOut(child)
	}
	w.WaitReady(app)
	w.waitIdleFor(3*idlePeriod, app.GetName())
	calls := w.OperatorRequestsWithin(time.Second, func() { w.Touch(append(children, app)...) })
	w.Expect(len(calls)).To(gomega.BeZero(), "a second reconcile calls:\n%s", calls.Count())
}

// waitRolledOut waits for the pods of an existing Deployment. Its controller may observe a change late, and until then
// the application is still ready.
func (w *World) waitRolledOut(child client.Object) {
	w.Helper()
	deployment, ok := child.(*appsv1.Deployment)
	if !ok {
		return
	}
	w.Eventually(func() health.Status {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(deployment), deployment); apierrors.IsNotFound(err) {
			return health.Healthy
		}
		return health.Evaluate(deployment).Status
	}, "60s", "20ms").Should(gomega.Equal(health.Healthy))
}

// WaitIdle waits until the operator sends no more requests for an application: pruning follows the status update, and
// events follow both.
func (w *World) WaitIdle(name string) {
	w.Helper()
	w.waitIdleFor(idlePeriod, name)
}

// idlePeriod is longer than most requests take. On a busy machine the response to the deletion of a Service takes
// longer, although the deletion is already visible, because the API server still releases its address.
const idlePeriod = 500 * time.Millisecond

func (w *World) waitIdleFor(d time.Duration, name string) {
	w.Helper()
	concerns := func(e *audit.Event) bool {
		return e.ObjectRef.Name == name ||
			strings.HasPrefix(e.ObjectRef.Name, name+".") || // event
			strings.HasPrefix(e.ObjectRef.Name, name+"-") // child
	}
	w.Eventually(func() string {
		return w.OperatorRequestsWithin(d).Where(concerns).Count().String()
	}, "60s", "1ms").Should(gomega.Equal(audit.Events{}.Count().String()))
}

// Touch changes unmanaged fields of objects.
func (w *World) Touch(objects ...client.Object) {
	w.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/touched":"at-%d"}}}`, time.Now().UnixNano()))
	for _, obj := range objects {
		w.Expect(client.IgnoreNotFound(w.Patch(w.Context(), obj, patch))).To(gomega.Succeed())
	}
}
