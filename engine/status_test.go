package engine

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
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

var (
	noon         = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	owner        = desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Namespace: "shop", Name: "web", UID: "uid"}
	deploymentID = desired.ID{Kind: desired.KindDeployment, Name: "web"}
	serviceID    = desired.ID{Kind: desired.KindService, Name: "web"}
)

func web(suspend bool) desired.Component {
	return desired.For(owner, []appsapi.Component{{Name: "web", ResourceName: "web", Suspend: suspend, Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: "nginx"}, Ports: []appsapi.Port{{Port: 80}},
	}}}}, desired.Known{})[0]
}

// deployment has this many pods of the two that are wanted.
func deployment(ready int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
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

// applied marks children as what the spec asks for.
func appliedAs(c desired.Component, seen rollout.Seen) rollout.Seen {
	for _, child := range c.Children {
		config, err := child.Render(seen[child.ID])
		if err != nil {
			panic(err)
		}
		seen[child.ID].SetAnnotations(map[string]string{"apps.holdfast.dev/applied": config.Hash()})
	}
	return seen
}

// why explains a component as a pass over its object does.
func why(c desired.Component, done *outcome, pods []*corev1.Pod, now time.Time) explain.Answer {
	return explain.Explain((&observed{}).scene(c, done, pods), now)
}

func timedOut(d *appsv1.Deployment) {
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
}

func crashing() []*corev1.Pod {
	return []*corev1.Pod{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3}},
		}}},
	}}
}

// lines prints a status as people read it.
func lines(s *appsapi.ApplicationStatus) []string {
	var out []string
	for _, c := range s.Conditions {
		out = append(out, fmt.Sprintf("%s %s/%s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	for _, c := range s.Causes {
		out = append(out, fmt.Sprintf("cause %s %s/%s", c.Code, c.Object.Kind, c.Object.Name))
	}
	return out
}

func TestStatus(t *testing.T) {
	const (
		fine     = "Applied True/Reconciled: The API server accepted every object"
		rolling  = "Deployment shop/web waits for its pods to become ready"
		crash    = "Container app of pod web-1 crashes: it exited with code 3"
		conflict = "Service shop/web belongs to Foo \"bar\""
		quota    = `The API server refused Deployment web: deployments.apps "web" is forbidden: exceeded quota`
	)
	taken := &own.NameConflict{Child: serviceID, Namespace: "shop", Why: `belongs to Foo "bar"`}
	refusal := fmt.Errorf("apply Deployment shop/web: %w",
		apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New("exceeded quota")))
	before := func(kind, reason string, age time.Duration) []metav1.Condition {
		return []metav1.Condition{{Type: kind, Status: "True", Reason: reason, LastTransitionTime: metav1.NewTime(noon.Add(-age))}}
	}
	cases := map[string]struct {
		suspend    bool
		pending    bool
		deployment *appsv1.Deployment
		pods       []*corev1.Pod
		errors     map[desired.ID]error
		failed     error
		before     []metav1.Condition
		want       []string
	}{
		"well": {deployment: deployment(2), want: []string{"Ready True/Reconciled: Everything runs as declared", fine}},
		"on its way": {deployment: deployment(1), want: []string{
			"Ready False/Progressing: " + rolling, fine, "Reconciling True/Progressing: " + rolling}},
		"crashing": {deployment: deployment(1), pods: crashing(), want: []string{
			"Ready False/ComponentDegraded: " + crash, fine, "Reconciling True/ComponentDegraded: " + crash, "cause CrashLoop Pod/web-1"}},
		"crashing past its deadline": {deployment: deployment(1, timedOut), pods: crashing(), want: []string{
			"Ready False/ComponentDegraded: " + crash, fine, "Stalled True/ComponentDegraded: " + crash, "cause CrashLoop Pod/web-1"}},
		"a name is taken": {deployment: deployment(2), errors: map[desired.ID]error{serviceID: taken, deploymentID: refusal}, want: []string{
			"Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict, "Reconciling True/NameConflict: " + conflict}},
		"a name is taken for too long": {deployment: deployment(2), errors: map[desired.ID]error{serviceID: taken},
			before: before("Reconciling", "NameConflict", 10*time.Minute), want: []string{
				"Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict, "Stalled True/NameConflict: " + conflict}},
		"a name is still taken": {deployment: deployment(2), errors: map[desired.ID]error{serviceID: taken},
			before: before("Stalled", "NameConflict", time.Second), want: []string{
				"Stalled True/NameConflict: " + conflict, "Ready False/NameConflict: " + conflict, "Applied False/NameConflict: " + conflict}},
		"refused": {deployment: deployment(2), errors: map[desired.ID]error{deploymentID: refusal}, want: []string{
			"Ready False/ApplyFailed: " + quota, "Applied False/ApplyFailed: " + quota, "Reconciling True/ApplyFailed: " + quota}},
		"unseen": {failed: errors.New("get Deployment shop/web: no"), want: []string{
			"Ready Unknown/InternalError: The state in the cluster could not be read: get Deployment shop/web: no",
			"Applied Unknown/InternalError: Nothing was written, because the state in the cluster could not be read",
			"Reconciling True/InternalError: The state in the cluster could not be read: get Deployment shop/web: no"}},
		"suspended": {suspend: true, deployment: deployment(2), want: []string{
			"Ready True/Suspended: Runs on as it is; while suspended nothing is repaired or updated", fine}},
		"suspended and not well": {suspend: true, deployment: deployment(1), want: []string{
			"Ready False/Suspended: " + rolling + "; while suspended nothing is repaired or updated", fine}},
		"suspended and crashing": {suspend: true, deployment: deployment(1), pods: crashing(), want: []string{
			"Ready False/Suspended: " + crash + "; while suspended nothing is repaired or updated", fine, "cause CrashLoop Pod/web-1"}},
		"suspended and edited": {suspend: true, pending: true, deployment: deployment(2), want: []string{
			"Ready False/Suspended: Changes of the spec wait until it is no longer suspended",
			"Applied False/Suspended: Changes of the spec wait until it is no longer suspended"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := web(tc.suspend)
			done := &outcome{failed: tc.failed, errors: tc.errors}
			if tc.failed == nil {
				done.seen = rollout.Seen{deploymentID: tc.deployment, serviceID: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}}}
				if !tc.pending {
					appliedAs(c, done.seen)
				}
			}
			was := &appsapi.ApplicationStatus{Conditions: tc.before}
			views := []view{assess(c, done, why(c, done, tc.pods, noon), nil)}
			got := status(was, 7, views, done, noon)
			if diff := cmp.Diff(tc.want, lines(got)); diff != "" {
				t.Error(diff)
			}
			if got.ObservedGeneration != 7 || !transition(was, got) {
				t.Errorf("got generation %d, transition %v", got.ObservedGeneration, transition(was, got))
			}
			again := status(got, 7, []view{assess(c, done, why(c, done, tc.pods, noon.Add(time.Second)), got.Causes)}, done, noon.Add(time.Second))
			if transition(got, again) {
				t.Errorf("a second look changes the status:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

// TestAbsentIsNeverHealthy has a component whose children are not there.
func TestAbsentIsNeverHealthy(t *testing.T) {
	c := web(false)
	v := assess(c, &outcome{seen: rollout.Seen{}}, explain.Answer{}, nil)
	if v.verdict.Status != "Progressing" || v.verdict.Message != "Deployment web does not exist" {
		t.Errorf("got %v", v.verdict)
	}
}

func TestComponentStatus(t *testing.T) {
	c := web(false)
	seen := rollout.Seen{deploymentID: deployment(1), serviceID: &corev1.Service{}}
	want := ComponentStatus{Name: "web", Type: "Service", ResourceName: "web", Wanted: 2, Replicas: 2, Ready: 1, Available: 1, Selector: "app=web",
		Endpoints: []appsapi.Endpoint{{Name: "80", URL: "http://web.shop.svc:80"}}}
	if diff := cmp.Diff(want, assess(c, &outcome{seen: seen}, explain.Answer{}, nil).status); diff != "" {
		t.Error(diff)
	}
}

// TestDeletionStatus is about the time a deletion may take, and who has to know.
func TestDeletionStatus(t *testing.T) {
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
		before []metav1.Condition
		want   []string
		tells  bool
	}{
		"it begins":                         {nil, []string{ready, going}, false},
		"it begins in the middle":           {rolling("Progressing", time.Hour), []string{ready, going}, false},
		"it begins when nothing moved":      {stalled("WaitingForDependency"), []string{ready, going}, false},
		"it goes on":                        {rolling("Deleting", 9*time.Minute), []string{ready, going}, false},
		"it takes too long":                 {rolling("Deleting", 10*time.Minute), []string{ready, "Stalled True/Deleting: " + waits}, true},
		"it takes too long, as said before": {stalled("Deleting"), []string{ready, "Stalled True/Deleting: " + waits}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := &appsapi.ApplicationStatus{Conditions: tc.before}
			after := deletionStatus(before, 7, summary{status: "False", reason: "Deleting", message: waits, waits: true}, noon)
			if diff := cmp.Diff(tc.want, lines(after)); diff != "" {
				t.Error(diff)
			}
			if o, tells := verdictOccurrence(before, after); tells != tc.tells {
				t.Errorf("event %t, want %t: %v", tells, tc.tells, o)
			}
		})
	}
}
