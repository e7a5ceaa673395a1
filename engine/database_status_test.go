package engine

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
)

// A server that was let near the data counts, whatever the spec says by now.
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
		"no pod":                       {},
		"not started":                  {pods: pod(status("app", corev1.ContainerState{}, corev1.ContainerState{}))},
		"runs":                         {pods: pod(status("app", started, corev1.ContainerState{})), want: "mariadb:11.8"},
		"waits after a crash":          {pods: pod(status("app", corev1.ContainerState{}, crashed)), want: "mariadb:11.8"},
		"something beside it runs":     {pods: pod(status("proxy", started, corev1.ContainerState{}))},
		"ready, and all is rolled":     {pods: pod(ready), set: rolledOut, want: "mariadb:11.8"},
		"ready, and may be an old one": {pods: pod(ready), set: set},
		"only the reset has run": {want: "mariadb:11.8", pods: pod(func(p *corev1.Pod) {
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
	for want, probe := range map[string]probeState{
		`DatabaseConnectionsExhausted: Account shop of database shop-db has as many connections as it may have`: {state: database.State{AccountLimited: true}},
		`DatabaseConnectionsExhausted: Database shop-db has no connection left`:                                 {state: database.State{ConnectionsExhausted: true, AccountLimited: true}},
		`Rotating: Passwords of database shop-db are being replaced`:                                            {state: database.State{Rotating: true}},
	} {
		v := probeHealth(c, probe, `component "web"`)
		if got := v.Reason + ": " + v.Message; !strings.HasPrefix(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
		if v.Reason == appsapi.ReasonRotating && !strings.HasSuffix(v.Message, `as component "web" may be`) {
			t.Errorf("it does not say who is waited for: %s", v.Message)
		}
	}
}

// A database of any kind is run as that of an AppStack, and nothing else is changed.
func TestDatabaseServersAreAddedToAnyKind(t *testing.T) {
	given := []Component{{Name: "web", Service: &appsapi.ServiceComponent{}}, {Name: "db", Database: &appsapi.DatabaseComponent{Version: "11.8"}}}
	kind := withDatabaseServers(Kind[*appsapi.AppStack]{Components: func(*appsapi.AppStack) []Component { return given }})
	got := kind.Components(nil)
	if got[0].Stateful != nil || got[1].Stateful == nil || got[1].Stateful.Image != "mariadb:11.8" || given[1].Stateful != nil {
		t.Errorf("got %+v of %+v", got, given)
	}
}

// While a server is being asked nobody is told so, for a moment; a visit that takes longer is told, and looked at no sooner than when
// it has ended.
func TestRunningProbeIsNotReported(t *testing.T) {
	startedAt := time.Now()
	c := desired.Component{Workload: desired.ID{Name: "shop-db"}, Database: &desired.Database{BindingSecret: "shop-db-binding"}}
	for name, tc := range map[string]struct {
		known         bool
		binding       string
		probedVersion string // the version that the visit was asked with
		elapsed       time.Duration
		transient     bool
		requeueAfter  time.Duration // 0 means never
	}{
		"just begun":                   {elapsed: 10 * time.Millisecond, transient: true, requeueAfter: probeGracePeriod},
		"takes long":                   {elapsed: 2 * probeGracePeriod},
		"answered, not seen yet":       {known: true, binding: "6", probedVersion: "6", elapsed: 10 * time.Millisecond, transient: true, requeueAfter: probeGracePeriod},
		"answered, not seen for long":  {known: true, binding: "6", probedVersion: "6", elapsed: 2 * probeGracePeriod, requeueAfter: 2*probeGracePeriod + bindingLostAfter},
		"somebody has deleted it":      {known: true, probedVersion: "6", elapsed: 10 * time.Millisecond, requeueAfter: 10*time.Millisecond + bindingLostAfter},
		"answered, and all of it seen": {known: true, binding: "7", elapsed: 10 * time.Millisecond, requeueAfter: probeInterval},
	} {
		t.Run(name, func(t *testing.T) {
			o := &observed{bindingVersions: map[string]string{"shop-db-binding": tc.binding}}
			o.evaluateProbe(c, &appsv1.StatefulSet{}, probeState{startedAt: startedAt, key: probeKey{bindingVersion: tc.probedVersion}, nextAt: startedAt.Add(probeInterval), state: database.State{BindingVersion: "7"}}, tc.known, "", startedAt.Add(tc.elapsed))
			if o.transient != tc.transient {
				t.Errorf("it is brief: %t, want %t", o.transient, tc.transient)
			}
			if tc.requeueAfter == 0 && !o.requeueAt.IsZero() || tc.requeueAfter != 0 && !o.requeueAt.Equal(startedAt.Add(tc.requeueAfter)) {
				t.Errorf("looked at again after %s, want %s", o.requeueAt.Sub(startedAt), tc.requeueAfter)
			}
		})
	}
}
