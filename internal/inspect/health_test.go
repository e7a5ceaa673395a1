package inspect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
)

func addReportedCause(s *fixtures.Fixture, code, kind, name, message string) {
	st := s.App.ApplicationStatus()
	st.Causes = append(st.Causes, appsapi.Cause{Code: code, Message: message, Since: fixtures.Ago(time.Hour), Object: appsapi.ObjectReference{Kind: kind, Name: name}})
}

func TestApplicationHealth(t *testing.T) {
	const (
		conflict   = "Service demo/shop-web belongs to somebody else"
		quota      = "ResourceQuota services of namespace demo is used up"
		contention = "somebody else keeps changing Service shop-web"
		unobserved = "SpecNotObserved AppStack/shop: The operator has not looked at the latest change of AppStack shop"
		stuck      = "StuckTerminating AppStack/shop: The deletion of AppStack shop waits for finalizer example.com/backup"
	)
	tests := map[string]struct {
		change    func(*fixtures.Fixture)
		want      []string
		condition string // Reason: Message
	}{
		"the operator says no, and all looks well": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "Progressing", "Prunes") },
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy},
			condition: "Progressing: Prunes",
		},
		"what only the operator knows": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "NameConflict", conflict) },
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "NameConflict AppStack/shop: " + conflict},
			condition: "NameConflict: " + conflict,
		},
		"what only the operator knows, beside what is seen": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "NameConflict", conflict)
				s.SetImageNotFound("web")
			},
			want: []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound,
				"NameConflict AppStack/shop: " + conflict, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "NameConflict: " + conflict,
		},
		"what the operator says is seen here, too": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ComponentDegraded", imageNotFound)
				s.SetImageNotFound("web")
				addReportedCause(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, imageNotFound)
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "ComponentDegraded: " + imageNotFound,
		},
		"what the operator says is over": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "Progressing", "Waits")
				addReportedCause(s, "CrashLoop", "Pod", "shop-web-gone", "It crashed")
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy},
			condition: "Progressing: Waits",
		},
		"nothing explains what the operator says": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "ComponentDegraded", "It is broken") },
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "ComponentDegraded AppStack/shop: It is broken"},
			condition: "ComponentDegraded: It is broken",
		},
		"who may not see pods is told what the operator sees": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ComponentDegraded", imageNotFound)
				s.SetImageNotFound("web")
				addReportedCause(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, imageNotFound)
				s.ForbiddenKinds = []string{"Pod"}
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Progressing 0/2: " + webProgressing, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "ComponentDegraded: " + imageNotFound,
		},
		"a write was refused": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ApplyFailed", quota)
				s.Remove("Service", "shop-web")
				addReportedCause(s, "QuotaExceeded", "Service", "shop-web", quota)
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Progressing 2/2: Service shop-web does not exist", "QuotaExceeded Service/shop-web: " + quota},
			condition: "ApplyFailed: " + quota,
		},
		"the same code of two objects is two causes": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "Progressing", contention)
				addReportedCause(s, "FieldConflict", "Service", "shop-web", contention)
				addReportedCause(s, "FieldConflict", "Deployment", "shop-web", "another")
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "FieldConflict Service/shop-web: " + contention, "FieldConflict Deployment/shop-web: another"},
			condition: "Progressing: " + contention,
		},
		"suspended as a whole": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("True", "Suspended", "Suspended")
				for i := range s.Components {
					s.Components[i].Suspended = true
				}
			},
			want: []string{"ready, Suspended", "migrate Suspended 1/1: It is suspended: nothing is repaired or updated",
				"db Suspended 1/1: It is suspended: nothing is repaired or updated", "web Suspended 2/2: It is suspended: nothing is repaired or updated"},
			condition: "Suspended: Suspended",
		},
		"the operator has never looked": {
			change: func(s *fixtures.Fixture) {
				s.Objects = nil
				*s.App.ApplicationStatus() = appsapi.ApplicationStatus{}
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: Job " + jobName() + " does not exist",
				"db Progressing 0/0: StatefulSet shop-db does not exist", "web Progressing 0/0: Deployment shop-web does not exist", unobserved},
			condition: ": The operator has not looked at it yet",
		},
		"the operator has not looked at a change": {
			change:    func(s *fixtures.Fixture) { s.App.SetGeneration(2) },
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy, unobserved},
			condition: "Progressing: The operator has not looked at the latest change yet",
		},
		"being deleted": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion", "example.com/backup")
				s.SetReadyCondition("False", "Deleting", "Component db is deleted")
				s.Remove("Service", "shop-web")
				s.Remove("Deployment", "shop-web")
				s.Remove("PodDisruptionBudget", "shop-web")
				s.SetStorageClassMissing("db", "fast")
			},
			want:      []string{"not ready, Progressing", migrateHealthy, "db Progressing 0/1: StatefulSet demo/shop-db waits for its pods to become ready", "web Progressing 0/0: its pods are not gone yet"},
			condition: "Deleting: Component db is deleted",
		},
		"being deleted, and a pod does not go": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion")
				s.SetReadyCondition("False", "Deleting", "Component web is deleted")
				pod := s.Pods("web")[0]
				pod.DeletionTimestamp, pod.Finalizers = new(fixtures.Ago(time.Hour)), []string{"example.com/hold"}
				s.Objects = nil
				s.Add(pod)
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: everything of it is gone", "db Progressing 0/0: everything of it is gone",
				"web Degraded 0/0: The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold",
				"StuckTerminating " + firstPod + ": The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold"},
			condition: "Deleting: Component web is deleted",
		},
		"being deleted, held by somebody else": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("example.com/backup")
				s.SetReadyCondition("False", "Deleting", "Done")
				s.Objects = nil
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: everything of it is gone", "db Progressing 0/0: everything of it is gone",
				"web Progressing 0/0: everything of it is gone", stuck},
			condition: "Deleting: Done",
		},
		"being deleted, and the operator does not look": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion")
				s.App.SetGeneration(2)
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy, unobserved},
			condition: "Progressing: The operator has not looked at the latest change yet",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			tc.change(s)
			v := inspect.Evaluate(s.Input())
			if diff := cmp.Diff(tc.want, formatView(v)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			if got := v.Reason + ": " + v.Message; got != tc.condition {
				t.Errorf("it says %q, want %q", got, tc.condition)
			}
		})
	}
}

// What is of a kind that nobody knows is never green.
func TestUnknownKindIsNotHealthy(t *testing.T) {
	s := newShop()
	in := s.Input()
	web := &in.Components[2]
	web.Children = append(web.Children, web.Children[0])
	other := &web.Children[len(web.Children)-1]
	other.Kind, other.Name = corev1.SchemeGroupVersion.WithKind("PodTemplate"), "shop-web"
	child := &corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fixtures.Namespace, Name: "shop-web", Labels: map[string]string{appsapi.LabelOwnerUID: string(s.App.GetUID())}}}
	in.Objects = append(in.Objects, child)
	v := inspect.Evaluate(in)
	if c := v.Component("web"); c.Health != health.Unknown || v.Health != health.Unknown {
		t.Errorf("component %s, whole %s, want Unknown", c.Health, v.Health)
	}
}

// An application without components was not understood.
func TestNoComponentsIsUnknown(t *testing.T) {
	in := newShop().Input()
	in.Components = nil
	if v := inspect.Evaluate(in); v.Health != health.Unknown {
		t.Errorf("got %s, want Unknown", v.Health)
	}
}

// The same input has the same view, whatever the order in which lists arrived.
func TestObjectOrderDoesNotMatter(t *testing.T) {
	s := newShop()
	s.SetImageNotFound("web")
	s.SetStorageClassMissing("db", "fast")
	want := formatView(inspect.Evaluate(s.Input()))
	in := s.Input()
	for i := range len(in.Objects) / 2 {
		in.Objects[i], in.Objects[len(in.Objects)-1-i] = in.Objects[len(in.Objects)-1-i], in.Objects[i]
	}
	if diff := cmp.Diff(want, formatView(inspect.Evaluate(in))); diff != "" {
		t.Errorf("(-in order +backwards):\n%s", diff)
	}
}
