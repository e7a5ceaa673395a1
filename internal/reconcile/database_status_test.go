package reconcile

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// TestStartedImage checks that a server that has started on the volume counts, even if the spec has
// changed since.
func TestStartedImage(t *testing.T) {
	c := desired.Component{Workload: desired.ID{Name: "shop-db"}, Database: &desired.Database{DatabaseComponent: appsapi.DatabaseComponent{Image: "mariadb:10.11"}}}
	started := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	crashed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	pod := func(change func(*corev1.Pod)) []*corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "shop-db-0"}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "reset-credentials", Image: "mariadb:11.8"}},
			Containers:     []corev1.Container{{Name: "proxy", Image: "mesh:99.1"}, {Name: "app", Image: "mariadb:11.8"}},
		}}
		change(p)
		return []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "copied-its-labels"}}, p}
	}
	status := func(name string, now, last corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: name, State: now, LastTerminationState: last}}
		}
	}
	ready := func(p *corev1.Pod) {
		p.Spec = corev1.PodSpec{}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	}
	set := &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{Replicas: 1}}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "mariadb:11.8"}}
	rolledOut := set.DeepCopy()
	rolledOut.Status.UpdatedReplicas = 1
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		set  *appsv1.StatefulSet
		want string
	}{
		"no pod":                      {},
		"not started":                 {pods: pod(status("app", corev1.ContainerState{}, corev1.ContainerState{}))},
		"running":                     {pods: pod(status("app", started, corev1.ContainerState{})), want: "mariadb:11.8"},
		"crashed and waiting":         {pods: pod(status("app", corev1.ContainerState{}, crashed)), want: "mariadb:11.8"},
		"only the sidecar is running": {pods: pod(status("proxy", started, corev1.ContainerState{}))},
		"ready and rolled out":        {pods: pod(ready), set: rolledOut, want: "mariadb:11.8"},
		"ready, rollout in progress":  {pods: pod(ready), set: set},
		"only the credentials reset has run": {want: "mariadb:11.8", pods: pod(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "reset-credentials", State: crashed}}
		})},
	} {
		t.Run(name, func(t *testing.T) {
			if got := startedImage(c, tc.set, tc.pods); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestProbeHealth(t *testing.T) {
	c := desired.Component{Workload: desired.ID{Name: "shop-db"}, Database: &desired.Database{DatabaseComponent: appsapi.DatabaseComponent{Database: "shop"}}}
	for want, probe := range map[string]database.Probe{
		`DatabaseConnectionsExhausted: Account shop of database shop-db has reached its connection limit`: {State: database.State{AccountLimited: true}},
		`DatabaseConnectionsExhausted: Database shop-db has no free connections`:                          {State: database.State{ConnectionsExhausted: true, AccountLimited: true}},
		`Rotating: Rotating passwords of database shop-db`:                                                {State: database.State{Rotating: true}},
	} {
		v := probeHealth(c, probe, `component "web"`)
		if got := v.Reason + ": " + v.Message; !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if v.Reason == appsapi.ReasonRotating && !strings.HasSuffix(v.Message, `until component "web" has restarted with the new one`) {
			t.Errorf("the message does not name the lagging consumer: %s", v.Message)
		}
	}
}

// A rotation is reported from its request on: until the next probe, the server still has the old passwords.
func TestRequestedRotationIsReported(t *testing.T) {
	for requested, wantReason := range map[string]string{"": appsapi.ReasonReconciled, "monday": appsapi.ReasonReconciled, "tuesday": appsapi.ReasonRotating} {
		c := desired.Component{Workload: desired.ID{Name: "shop-db"}, Database: &desired.Database{RotationRequestedAt: requested}}
		set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}}
		probe := database.Probe{Key: database.ProbeKey{RotationRequestedAt: "monday"}}
		if got := evaluateProbe(&execute.Observed{}, c, set, probe, true, "", time.Now()); got.Reason != wantReason {
			t.Errorf("probed after monday's request, last request %q: got %s, want %s", requested, got.Reason, wantReason)
		}
	}
}

// TestRunningProbeIsNotReported checks that a short probe does not appear in the status. A longer one
// does, and requeues the application only when it ends.
func TestRunningProbeIsNotReported(t *testing.T) {
	startedAt := time.Now()
	c := desired.Component{Workload: desired.ID{Name: "shop-db"}, Database: &desired.Database{BindingSecret: "shop-db-binding"}}
	for name, tc := range map[string]struct {
		known         bool
		binding       string
		probedVersion string // the binding version that the probe used
		elapsed       time.Duration
		transient     bool
		requeueAfter  time.Duration // 0 means never
	}{
		"just started":                   {elapsed: 10 * time.Millisecond, transient: true, requeueAfter: database.ProbeGracePeriod},
		"long running":                   {elapsed: 2 * database.ProbeGracePeriod},
		"done, cache is behind":          {known: true, binding: "6", probedVersion: "6", elapsed: 10 * time.Millisecond, transient: true, requeueAfter: database.ProbeGracePeriod},
		"done, cache is behind for long": {known: true, binding: "6", probedVersion: "6", elapsed: 2 * database.ProbeGracePeriod, requeueAfter: 2*database.ProbeGracePeriod + database.BindingLostAfter},
		"binding was deleted":            {known: true, probedVersion: "6", elapsed: 10 * time.Millisecond, requeueAfter: 10*time.Millisecond + database.BindingLostAfter},
		"done, cache is current":         {known: true, binding: "7", elapsed: 10 * time.Millisecond, requeueAfter: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			o := &execute.Observed{BindingVersions: map[string]string{"shop-db-binding": tc.binding}}
			probe := database.Probe{StartedAt: startedAt, Key: database.ProbeKey{BindingVersion: tc.probedVersion}, NextAt: startedAt.Add(time.Hour), State: database.State{BindingVersion: "7"}}
			evaluateProbe(o, c, &appsv1.StatefulSet{}, probe, tc.known, "", startedAt.Add(tc.elapsed))
			if o.Transient != tc.transient {
				t.Errorf("transient: %t, want %t", o.Transient, tc.transient)
			}
			if tc.requeueAfter == 0 && !o.RequeueAt.IsZero() || tc.requeueAfter != 0 && !o.RequeueAt.Equal(startedAt.Add(tc.requeueAfter)) {
				t.Errorf("requeued after %s, want %s", o.RequeueAt.Sub(startedAt), tc.requeueAfter)
			}
		})
	}
}
