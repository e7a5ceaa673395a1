package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// componentState is the observed state of one component and its derived status.
type componentState struct {
	component desired.Component
	status    ComponentStatus
	health    health.Result
	causes    []explain.Cause
	// warning is the message of a healthy component that needs an action.
	warning string
	step    rollout.Step
	// startingSuffix is appended to the message of a cause. It explains why a database server does not
	// accept logins yet.
	startingSuffix string
	// contention is set while another writer keeps changing a child.
	contention string
	// pendingChanges is set if a suspended component differs from the spec.
	pendingChanges bool
	requeueAt      time.Time
}

// assessComponent derives the state of a component from its children and their diagnosis.
func assessComponent(c desired.Component, scope *execute.Scope, diagnosis explain.Diagnosis, previousCauses []appsapi.Cause) componentState {
	// Causes that are only informational stay out of the status.
	errorCauses := slices.DeleteFunc(slices.Clone(diagnosis.Causes), func(c explain.Cause) bool { return c.Severity != explain.Error })
	v := componentState{
		component: c, step: scope.Step(c.Name), requeueAt: diagnosis.RecheckAt,
		causes: explain.PreserveSince(errorCauses, previousCauses), warning: explain.Warning(diagnosis.Causes),
		status: ComponentStatus{
			Name: c.Name, Type: c.Type, ResourceName: c.Workload.Name, Selector: c.Selector(scope.Owner.Keys), Endpoints: c.Endpoints,
		},
	}
	v.health = childrenHealth(c, scope)
	if d := v.step.Data; d != nil && d.Health != nil {
		v.health = health.Worst(*d.Health, v.health)
	} else if d != nil && d.PendingVolume != nil {
		v.health = health.Worst(v.health, *d.PendingVolume)
	}
	if dbHealth, ok := scope.DatabaseHealth[c.Name]; ok {
		v.health = health.Worst(v.health, dbHealth)
		if dbHealth.Reason == appsapi.ReasonDatabaseStarting { // more specific than a pod that is not ready
			v.health = health.Worst(dbHealth, v.health)
			v.startingSuffix = "; t" + strings.TrimPrefix(dbHealth.Message, "T")
		}
		if dbHealth.Reason == appsapi.ReasonRotating && v.health.Status == health.Healthy {
			v.health = dbHealth
		}
		if dbHealth.Status == health.Healthy {
			v.status.Binding = c.Database.BindingSecret
		}
	}
	for _, child := range c.Children {
		if v.contention == "" && scope.Contended[child.ID] {
			v.contention = contentionMessage(scope.Owner.Namespace, child.ID)
		}
	}
	v.countReplicas(scope.Children[c.Workload])
	if c.Suspended {
		v.pendingChanges = rollout.HasPendingChanges(scope.Owner.Keys, c, scope.Children)
	}
	return v
}

// countReplicas fills in the replica counts and the selector.
func (v *componentState) countReplicas(workload runtime.Object) {
	switch w := workload.(type) {
	case *appsv1.Deployment:
		v.status.Desired = 1
		if w.Spec.Replicas != nil {
			v.status.Desired = *w.Spec.Replicas
		}
		v.status.Replicas, v.status.Ready, v.status.Available = w.Status.Replicas, w.Status.ReadyReplicas, w.Status.AvailableReplicas
		v.status.Selector = metav1.FormatLabelSelector(w.Spec.Selector)
	case *appsv1.StatefulSet:
		v.status.Desired = 1
		if w.Spec.Replicas != nil {
			v.status.Desired = *w.Spec.Replicas
		}
		v.status.Replicas, v.status.Ready, v.status.Available = w.Status.Replicas, w.Status.ReadyReplicas, w.Status.AvailableReplicas
		v.status.Selector = metav1.FormatLabelSelector(w.Spec.Selector)
	case *batchv1.Job:
		v.status.Desired, v.status.Ready = 1, min(w.Status.Succeeded, 1)
	}
}

// childrenHealth returns the worst health of the children. An invalid spec is not applied: its new
// children are ignored, so that components that run keep their health.
func childrenHealth(c desired.Component, scope *execute.Scope) health.Result {
	if scope.SpecErr != nil && scope.Children[c.Workload] == nil {
		return health.NotCreated()
	}
	verdicts := make([]health.Result, 0, len(c.Children))
	for _, child := range c.Children {
		obj, ok := scope.Children[child.ID]
		failure := newChildFailure(scope.Owner.Namespace, child.ID, scope.ChildErrs[child.ID])
		switch {
		case ok:
			verdicts = append(verdicts, health.EvaluateAtGeneration(obj, scope.DesiredGenerations[child.ID]))
		case scope.SpecErr != nil:
		case failure.rank > rankTransient: // the failed write explains why the child does not exist
			verdicts = append(verdicts, health.Result{Status: health.Degraded, Reason: failure.reason, Message: failure.message})
		default:
			verdicts = append(verdicts, health.Missing(child.Kind.Kind, child.Name))
		}
	}
	return health.Worst(verdicts...)
}

// isDegraded reports whether a component has failed, as opposed to still rolling out.
func (v *componentState) isDegraded() bool {
	return len(v.causes) > 0 || v.health.Status == health.Degraded
}

// problem states in one sentence why a component is not ready.
func (v *componentState) problem() string {
	switch {
	case len(v.causes) > 0:
		return v.causes[0].Message + v.startingSuffix
	case v.contention != "":
		return v.contention
	case v.step.PreviousRun != nil:
		return fmt.Sprintf("its previous run (Job %s) has not finished", v.step.PreviousRun.Name)
	case len(v.step.WaitsFor) > 0:
		return fmt.Sprintf("it waits for %q", v.step.WaitsFor[0])
	}
	return v.health.Message
}

// fillStatus sets the health, reason and message in the status of a component.
func (v *componentState) fillStatus(statesByName map[string]*componentState) {
	s := &v.status
	s.Health, s.Reason, s.Message = string(v.health.Status), v.health.Reason, v.health.Message
	switch {
	case len(v.causes) > 0:
		s.Health, s.Reason, s.Message = string(health.Degraded), appsapi.ReasonComponentDegraded, v.causes[0].Message+v.startingSuffix
	case v.contention != "":
		s.Health, s.Reason, s.Message = string(health.Progressing), appsapi.ReasonProgressing, v.contention
	case v.health.Reason == appsapi.ReasonInvalidSpec:
		s.Health = "Waiting"
	case v.step.IsWaiting():
		s.Health, s.Reason, s.Message = "Waiting", appsapi.ReasonWaitingForDependency, v.waitingMessage(statesByName)
		// The field is set only while the component waits. Otherwise an upgrade of the operator would
		// rewrite the status of every AppStack.
		s.DependsOn = v.component.DependsOn
	case v.component.Suspended && v.health.Status == health.Healthy:
		s.Reason, s.Message = appsapi.ReasonSuspended, health.SuspendedMessage
	case v.component.Suspended:
		s.Reason, s.Message = appsapi.ReasonSuspended, v.health.Message+health.SuspendedSuffix
	case v.health.Status == health.Healthy && v.health.Reason != appsapi.ReasonRotating: // a rotation may wait for a client for a long time
		s.Message = v.warning
	}
}

// waitingMessage names the blocking component and its problem.
func (v *componentState) waitingMessage(statesByName map[string]*componentState) string {
	if len(v.step.WaitsFor) == 0 {
		return fmt.Sprintf("Component %q: %s", v.component.Name, v.problem())
	}
	blocker := v.step.WaitsFor[0]
	reason := "it is not ready"
	if other := statesByName[blocker]; other != nil {
		reason = other.problem()
	}
	return fmt.Sprintf("Component %q waits for %q: %s", v.component.Name, blocker, reason)
}
