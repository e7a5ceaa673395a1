package reconcile

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

var (
	noon         = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	testOwner    = desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: "uid"}
	deploymentID = desired.ID{Kind: desired.KindDeployment, Name: "web"}
	serviceID    = desired.ID{Kind: desired.KindService, Name: "web"}
)

func webComponent(suspend bool) desired.Component {
	components := desired.ExpandComponents([]appsapi.Component{{Name: "web", ResourceName: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: "nginx"}, Ports: []appsapi.Port{{Port: 80}},
	}}}})
	components[0].Operations.Suspend = suspend
	return desired.Build(testOwner, components, desired.ClusterState{})[0]
}

// newTestDeployment returns a Deployment with two desired and this many ready pods.
func newTestDeployment(ready int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2,
			ReadyReplicas: ready, AvailableReplicas: ready},
	}
	for _, c := range change {
		c(d)
	}
	return d
}

// markApplied marks children as in sync with the spec.
func markApplied(c desired.Component, seen rollout.Observed) rollout.Observed {
	for _, child := range c.Children {
		config, err := child.Render(seen[child.ID])
		if err != nil {
			panic(err)
		}
		seen[child.ID].SetAnnotations(map[string]string{"apps.holdfast.dev/applied-hash": config.Hash()})
	}
	return seen
}

// newTestScope returns the scope of an application in namespace shop.
func newTestScope(children rollout.Observed) *execute.Scope {
	scope := execute.NewScope(nil, desired.Owner{Keys: appsapi.DefaultKeys, Namespace: "shop"})
	scope.Children = children
	return scope
}

// explainComponent explains a component as a reconcile does.
func explainComponent(c desired.Component, scope *execute.Scope, pods []*corev1.Pod, now time.Time) explain.Diagnosis {
	return explain.Explain(newSnapshot(scope, c, pods), now)
}

func timedOut(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
}

func crashingPods() []*corev1.Pod {
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
		}}},
	}}
}

// statusLines formats a status for comparison.
func statusLines(s *appsapi.ApplicationStatus) []string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprintf("%s %s/%s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, c := range s.Causes {
		out = append(out, fmt.Sprintf("cause %s %s/%s", c.Code, c.Object.Kind, c.Object.Name))
	}
	return out
}

func TestComputeStatus(t *testing.T) {
	const (
		appliedOK = "Applied True/Reconciled: The API server accepted every object"
		rolling   = "Deployment shop/web waits for its pods to become ready"
		crash     = "Container app of Pod web-1 crashes: it exited with code 3"
		foreign   = `Service shop/web: field x is set by field manager "y"`
		conflict  = "Service shop/web belongs to Foo \"bar\""
		quota     = `The API server rejected Deployment web: deployments.apps "web" is forbidden: exceeded quota`
	)
	nameConflict := &ownership.NameConflict{Child: serviceID, Namespace: "shop", Message: `belongs to Foo "bar"`}
	fieldConflict := &fieldmanager.FieldConflict{Child: serviceID, Namespace: "shop", Message: "field x is set by field manager \"y\""}
	rejection := fmt.Errorf("apply Deployment shop/web: %w",
		apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New("exceeded quota")))
	before := func(kind, reason string, age time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: "True", Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-age))}}
	}
	cases := map[string]struct {
		suspend        bool
		pendingChanges bool
		deployment     *appsv1.Deployment
		pods           []*corev1.Pod
		childErrs      map[desired.ID]error
		observeErr     error
		before         []metav1.Condition
		want           []string
	}{
		"ready": {deployment: newTestDeployment(2), want: []string{"Ready True/Reconciled: Everything runs as declared", appliedOK}},
		"rolling out": {deployment: newTestDeployment(1), want: []string{
			"Ready False/Progressing: " + rolling, appliedOK, "Reconciling True/Progressing: " + rolling}},
		"crashing": {deployment: newTestDeployment(1), pods: crashingPods(), want: []string{
			"Ready False/ComponentDegraded: " + crash, appliedOK, "Reconciling True/ComponentDegraded: " + crash, "cause CrashLoop Pod/web-1"}},
		"crashing after the progress deadline": {deployment: newTestDeployment(1, timedOut), pods: crashingPods(), want: []string{
			"Ready False/ComponentDegraded: " + crash, appliedOK, "Stalled True/ComponentDegraded: " + crash, "cause CrashLoop Pod/web-1"}},
		"name conflict": {deployment: newTestDeployment(2), childErrs: map[desired.ID]error{serviceID: nameConflict, deploymentID: rejection}, want: []string{
			"Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict, "Reconciling True/NameConflict: " + conflict}},
		"name conflict after the deadline": {deployment: newTestDeployment(2), childErrs: map[desired.ID]error{serviceID: nameConflict},
			before: before("Reconciling", "NameConflict", 10*time.Minute), want: []string{
				"Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict, "Stalled True/NameConflict: " + conflict}},
		"name conflict, already stalled": {deployment: newTestDeployment(2), childErrs: map[desired.ID]error{serviceID: nameConflict},
			before: before("Stalled", "NameConflict", time.Second), want: []string{
				"Stalled True/NameConflict: " + conflict, "Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict}},
		"field conflict": {deployment: newTestDeployment(2), childErrs: map[desired.ID]error{serviceID: fieldConflict, deploymentID: rejection}, want: []string{
			"Ready False/FieldConflict: " + foreign, "Applied False/FieldConflict: " + foreign, "Reconciling True/FieldConflict: " + foreign}},
		"rejected": {deployment: newTestDeployment(2), childErrs: map[desired.ID]error{deploymentID: rejection}, want: []string{
			"Ready False/ApplyFailed: " + quota, "Applied False/ApplyFailed: " + quota, "Reconciling True/ApplyFailed: " + quota}},
		"not observed": {observeErr: errors.New("get Deployment shop/web: no"), want: []string{
			"Ready Unknown/InternalError: Cannot read the cluster state: get Deployment shop/web: no",
			"Applied Unknown/InternalError: No changes were written because the cluster state could not be read",
			"Reconciling True/InternalError: Cannot read the cluster state: get Deployment shop/web: no"}},
		"suspended": {suspend: true, deployment: newTestDeployment(2), want: []string{
			"Ready True/Suspended: Suspended: running unchanged; drift is not corrected and updates are not applied", appliedOK}},
		"suspended and not ready": {suspend: true, deployment: newTestDeployment(1), want: []string{
			"Ready False/Suspended: " + rolling + "; while suspended, drift is not corrected and updates are not applied", appliedOK}},
		"suspended and crashing": {suspend: true, deployment: newTestDeployment(1), pods: crashingPods(), want: []string{
			"Ready False/Suspended: " + crash + "; while suspended, drift is not corrected and updates are not applied", appliedOK, "cause CrashLoop Pod/web-1"}},
		"suspended and edited": {suspend: true, pendingChanges: true, deployment: newTestDeployment(2), want: []string{
			"Ready False/Suspended: Spec changes are pending; resume to apply them",
			"Applied False/Suspended: Spec changes are pending; resume to apply them"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := webComponent(tc.suspend)
			scope := newTestScope(nil)
			scope.ObserveErr, scope.ChildErrs = tc.observeErr, tc.childErrs
			if tc.observeErr == nil {
				scope.Children = rollout.Observed{deploymentID: tc.deployment, serviceID: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}}
				if !tc.pendingChanges {
					markApplied(c, scope.Children)
				}
			}
			previous := &appsapi.ApplicationStatus{Conditions: tc.before}
			states := []componentState{assessComponent(c, scope, explainComponent(c, scope, tc.pods, noon), nil)}
			got := computeStatus(previous, 7, states, scope, noon)
			if diff := cmp.Diff(tc.want, statusLines(got)); diff != "" {
				t.Error(diff)
			}
			if got.ObservedGeneration != 7 || !isTransition(previous, got) {
				t.Errorf("got generation %d, transition %v", got.ObservedGeneration, isTransition(previous, got))
			}
			again := computeStatus(got, 7, []componentState{assessComponent(c, scope, explainComponent(c, scope, tc.pods, noon.Add(time.Second)), got.Causes)}, scope, noon.Add(time.Second))
			if isTransition(got, again) {
				t.Errorf("a second reconcile changes the status:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

// TestMissingChildrenAreNotHealthy checks a component whose children do not exist.
func TestMissingChildrenAreNotHealthy(t *testing.T) {
	c := webComponent(false)
	v := assessComponent(c, newTestScope(rollout.Observed{}), explain.Diagnosis{}, nil)
	if v.health.Status != "Progressing" || v.health.Message != "Deployment web does not exist" {
		t.Errorf("got %v", v.health)
	}
}

// An invalid spec is not applied: running components keep their health, and new ones are not created.
func TestInvalidSpecKeepsHealthOfRunningComponents(t *testing.T) {
	for name, tc := range map[string]struct {
		children rollout.Observed
		want     ComponentStatus
	}{
		"running, with a new Service": {rollout.Observed{deploymentID: newTestDeployment(2)}, ComponentStatus{Health: "Healthy", Reason: "Reconciled"}},
		"new":                         {rollout.Observed{}, ComponentStatus{Health: "Waiting", Reason: "InvalidSpec", Message: "Not created: the spec is invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			scope := newTestScope(tc.children)
			scope.SpecErr = &rollout.InvalidSpec{Message: "two components are called web"}
			v := assessComponent(webComponent(false), scope, explain.Diagnosis{}, nil)
			v.fillStatus(nil)
			if got := (ComponentStatus{Health: v.status.Health, Reason: v.status.Reason, Message: v.status.Message}); !cmp.Equal(got, tc.want) {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The failed write explains why a child does not exist.
func TestNameConflictIsTheStateOfItsComponent(t *testing.T) {
	scope := newTestScope(rollout.Observed{serviceID: &corev1.Service{}})
	conflict := ownership.NewNameConflict(testOwner, deploymentID, "exists and is not managed by Holdfast")
	scope.ChildErrs[deploymentID] = conflict
	v := assessComponent(webComponent(false), scope, explain.Diagnosis{}, nil)
	if v.health.Status != "Degraded" || v.health.Reason != "NameConflict" || v.health.Message != conflict.Error() {
		t.Errorf("got %v", v.health)
	}
}

// A notice is no cause of the status; one that needs an action is the message of its component.
func TestWarningOfHealthyComponent(t *testing.T) {
	scope := newTestScope(rollout.Observed{deploymentID: newTestDeployment(2), serviceID: &corev1.Service{}})
	notices := []explain.Cause{{Code: explain.AutoscalerMetricsMissing, Severity: explain.Notice, Message: "it does not scale"}}
	v := assessComponent(webComponent(false), scope, explain.Diagnosis{Causes: notices}, nil)
	v.fillStatus(nil)
	if v.status.Health != "Healthy" || v.status.Message != "it does not scale" || len(v.causes) > 0 {
		t.Errorf("got %+v with causes %v", v.status, v.causes)
	}
}

// A spec that is not applied, because it is invalid or everything is suspended, has no revision.
func TestCurrentRevisionIsTheAppliedOne(t *testing.T) {
	for name, tc := range map[string]struct {
		steps []rollout.Step
		want  string
	}{
		"applied":     {[]rollout.Step{{Component: "web"}}, "2"},
		"not applied": {nil, "3"},
	} {
		t.Run(name, func(t *testing.T) {
			app := &appsapi.AppStack{}
			app.Status.CurrentRevision = "3"
			scope := newTestScope(rollout.Observed{deploymentID: newTestDeployment(2), serviceID: &corev1.Service{}})
			scope.App, scope.Plan.Steps = app, tc.steps
			scope.History.Current = &appsv1.ControllerRevision{Revision: 2}
			state := assessComponent(webComponent(true), scope, explain.Diagnosis{}, nil)
			next := (&Reconciler{}).nextStatus(scope, &appsapi.ApplicationStatus{}, []componentState{state}).(*appsapi.AppStack)
			if next.Status.CurrentRevision != tc.want || next.Status.ComponentsReady != "1/1" {
				t.Errorf("revision %q with %s components, want %q", next.Status.CurrentRevision, next.Status.ComponentsReady, tc.want)
			}
		})
	}
}

func TestComponentStatus(t *testing.T) {
	c := webComponent(false)
	seen := rollout.Observed{deploymentID: newTestDeployment(1), serviceID: &corev1.Service{}}
	want := ComponentStatus{Name: "web", Type: "Service", ResourceName: "web", Desired: 2, Replicas: 2, Ready: 1, Available: 1, Selector: "app=web",
		Endpoints: []appsapi.Endpoint{{Name: "80", URL: "http://web.shop.svc:80"}}}
	if diff := cmp.Diff(want, assessComponent(c, newTestScope(seen), explain.Diagnosis{}, nil).status); diff != "" {
		t.Error(diff)
	}
}

// TestComputeDeletionStatus checks the deadline of a deletion and its event.
func TestComputeDeletionStatus(t *testing.T) {
	const waits = "Deployment shop/web is being deleted"
	rolling := func(reason string, age time.Duration) []metav1.Condition {
		return []metav1.Condition{
			{Type: "Ready", Status: "False", Reason: reason},
			{Type: "Reconciling", Status: "True", Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-age))},
		}
	}
	stalled := func(reason string) []metav1.Condition {
		return []metav1.Condition{{Type: "Ready", Status: "False", Reason: reason}, {Type: "Stalled", Status: "True", Reason: reason}}
	}
	ready, going := "Ready False/Deleting: "+waits, "Reconciling True/Deleting: "+waits
	cases := map[string]struct {
		before    []metav1.Condition
		want      []string
		wantEvent bool
	}{
		"starts":                         {nil, []string{ready, going}, false},
		"starts during a rollout":        {rolling("Progressing", time.Hour), []string{ready, going}, false},
		"starts while stalled":           {stalled("WaitingForDependency"), []string{ready, going}, false},
		"continues":                      {rolling("Deleting", 9*time.Minute), []string{ready, going}, false},
		"exceeds the deadline":           {rolling("Deleting", 10*time.Minute), []string{ready, "Stalled True/Deleting: " + waits}, true},
		"was reported as stalled before": {stalled("Deleting"), []string{ready, "Stalled True/Deleting: " + waits}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &appsapi.ApplicationStatus{Conditions: tc.before}
			after := computeDeletionStatus(before, 7, conditionSummary{status: "False", reason: "Deleting", message: waits, mayStall: true}, noon)
			if diff := cmp.Diff(tc.want, statusLines(after)); diff != "" {
				t.Error(diff)
			}
			if o, emitted := readyConditionEvent(before, after); emitted != tc.wantEvent {
				t.Errorf("event %t, want %t: %v", emitted, tc.wantEvent, o)
			}
		})
	}
}
