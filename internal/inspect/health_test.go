package inspect_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
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
		conflict   = "Service demo/shop-web is controlled by another owner"
		quota      = "ResourceQuota services in namespace demo is exceeded"
		lostVolume = "PersistentVolumeClaim demo/data-shop-db-0 has lost its volume"
		contention = "Another client keeps changing Service shop-web"
		unobserved = "SpecNotObserved AppStack/shop: The operator has not observed the latest change of AppStack shop"
		stuck      = "StuckTerminating AppStack/shop: The deletion of AppStack shop waits for finalizer example.com/backup"
	)
	tests := map[string]struct {
		change    func(*fixtures.Fixture)
		want      []string
		condition string // Reason: Message
	}{
		"not ready although all components are healthy": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "Progressing", "Prunes") },
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy},
			condition: "Progressing: Prunes",
		},
		"reason that only the operator knows": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "NameConflict", conflict) },
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "NameConflict AppStack/shop: " + conflict},
			condition: "NameConflict: " + conflict,
		},
		"reason that only the operator knows, and another cause": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "NameConflict", conflict)
				s.SetImageNotFound("web")
			},
			want: []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound,
				"NameConflict AppStack/shop: " + conflict, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "NameConflict: " + conflict,
		},
		"reported cause is also found here": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ComponentDegraded", imageNotFound)
				s.SetImageNotFound("web")
				addReportedCause(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, imageNotFound)
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "ComponentDegraded: " + imageNotFound,
		},
		"reported cause is resolved": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "Progressing", "Waits")
				addReportedCause(s, "CrashLoop", "Pod", "shop-web-gone", "It crashed")
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy},
			condition: "Progressing: Waits",
		},
		"reason without a cause": {
			change:    func(s *fixtures.Fixture) { s.SetReadyCondition("False", "ComponentDegraded", "It is broken") },
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "ComponentDegraded AppStack/shop: It is broken"},
			condition: "ComponentDegraded: It is broken",
		},
		"reported cause in a forbidden kind": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ComponentDegraded", imageNotFound)
				s.SetImageNotFound("web")
				addReportedCause(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, imageNotFound)
				s.ForbiddenKinds = []string{"Pod"}
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Progressing 0/2: " + webProgressing, "ImageNotFound " + firstPod + ": " + imageNotFound},
			condition: "ComponentDegraded: " + imageNotFound,
		},
		"rejected write": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ApplyFailed", quota)
				s.Remove("Service", "shop-web")
				addReportedCause(s, "QuotaExceeded", "Service", "shop-web", quota)
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 2/2: " + quota, "QuotaExceeded Service/shop-web: " + quota},
			condition: "ApplyFailed: " + quota,
		},
		"same code for two objects is two causes": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "Progressing", contention)
				addReportedCause(s, "FieldConflict", "Service", "shop-web", contention)
				addReportedCause(s, "FieldConflict", "Deployment", "shop-web", "another")
			},
			want:      []string{"not ready, Degraded", migrateHealthy, dbHealthy, webHealthy, "FieldConflict Service/shop-web: " + contention, "FieldConflict Deployment/shop-web: another"},
			condition: "Progressing: " + contention,
		},
		"reason of a component": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "DataConflict", `Component "db": `+lostVolume+". Restore it")
				s.SetComponentStatus("db", "Degraded", "DataConflict", lostVolume+". Restore it")
			},
			want: []string{"not ready, Degraded", migrateHealthy, "db Degraded 1/1: " + lostVolume + ". Restore it", webHealthy,
				"DataConflict AppStack/shop: " + lostVolume},
			condition: `DataConflict: Component "db": ` + lostVolume + ". Restore it",
		},
		"reason of a component with another cause": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "ComponentDegraded", imageNotFound)
				s.SetComponentStatus("web", "Degraded", "BindingConflict", lostVolume)
				s.SetImageNotFound("web")
			},
			want: []string{"not ready, Degraded", migrateHealthy, dbHealthy, "web Degraded 0/2: " + imageNotFound,
				"ImageNotFound " + firstPod + ": " + imageNotFound, "BindingConflict AppStack/shop: " + lostVolume},
			condition: "ComponentDegraded: " + imageNotFound,
		},
		"reason of a component before the latest change": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "DataConflict", lostVolume)
				s.SetComponentStatus("db", "Degraded", "DataConflict", lostVolume)
				s.App.SetGeneration(2)
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy, unobserved},
			condition: "Progressing: The operator has not observed the latest change yet",
		},
		"component that the operator has not confirmed as ready": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("False", "Progressing", `Component "web": `+webProgressing)
				s.SetComponentStatus("web", "Progressing", "Progressing", webProgressing)
				s.SetComponentStatus("db", "Healthy", "Reconciled", "")
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, "web Progressing 2/2: " + webProgressing},
			condition: `Progressing: Component "web": ` + webProgressing,
		},
		"suspended application": {
			change: func(s *fixtures.Fixture) {
				s.SetReadyCondition("True", "Suspended", "Suspended")
				for i := range s.Components {
					s.Components[i].Suspended = true
				}
			},
			want: []string{"ready, Suspended", "migrate Suspended 1/1: Suspended: drift is not corrected and updates are not applied",
				"db Suspended 1/1: Suspended: drift is not corrected and updates are not applied",
				"web Suspended 2/2: Suspended: drift is not corrected and updates are not applied", "Suspended AppStack/shop: Suspended"},
			condition: "Suspended: Suspended",
		},
		"never observed": {
			change: func(s *fixtures.Fixture) {
				s.Objects = nil
				*s.App.ApplicationStatus() = appsapi.ApplicationStatus{}
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: " + notObserved, "db Progressing 0/0: " + notObserved, "web Progressing 0/0: " + notObserved,
				"SpecNotObserved AppStack/shop: No operator manages AppStack shop: none is running, or none watches namespace demo"},
			condition: ": The operator has not observed it yet",
		},
		"change not observed": {
			change:    func(s *fixtures.Fixture) { s.App.SetGeneration(2) },
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy, unobserved},
			condition: "Progressing: The operator has not observed the latest change yet",
		},
		"being deleted": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion", "example.com/backup")
				s.SetReadyCondition("False", "Deleting", "Component db is deleted")
				s.Remove("Service", "shop-web")
				s.Remove("Deployment", "shop-web")
				s.Remove("PodDisruptionBudget", "shop-web")
				s.SetStorageClassMissing("db", "fast")
				for i, pod := range s.Pods("db") {
					pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(fixtures.Ago(time.Duration(i-5)*time.Minute)), new(int64(600))
				}
			},
			want: []string{"not ready, Progressing", migrateHealthy,
				"db Progressing 0/1: Waiting for Pod demo/shop-db-0 to terminate (deletion requested at 2026-03-01T02:55:00Z, killed at 2026-03-01T03:05:00Z); " +
					"to kill it now: kubectl delete pod -n demo shop-db-0 --grace-period=1",
				"web Progressing 0/0: its pods still exist"},
			condition: "Deleting: Component db is deleted",
		},
		"being deleted, pod stuck": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion")
				s.SetReadyCondition("False", "Deleting", "Component web is deleted")
				pod := s.Pods("web")[0]
				pod.DeletionTimestamp, pod.Finalizers = new(fixtures.Ago(time.Hour)), []string{"example.com/hold"}
				s.Objects = nil
				s.Add(pod)
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: all its objects are deleted",
				"db Progressing 0/0: all its objects are deleted",
				"web Degraded 0/0: The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold",
				"StuckTerminating " + firstPod + ": The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold"},
			condition: "Deleting: Component web is deleted",
		},
		"being deleted, finalizer of another controller": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("example.com/backup")
				s.SetReadyCondition("False", "Deleting", "Done")
				s.Objects = nil
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: all its objects are deleted",
				"db Progressing 0/0: all its objects are deleted",
				"web Progressing 0/0: all its objects are deleted", stuck},
			condition: "Deleting: Done",
		},
		"being deleted, not observed": {
			change: func(s *fixtures.Fixture) {
				s.SetDeleting("apps.holdfast.dev/ordered-deletion")
				s.App.SetGeneration(2)
			},
			want:      []string{"not ready, Progressing", migrateHealthy, dbHealthy, webHealthy, unobserved},
			condition: "Progressing: The operator has not observed the latest change yet",
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
				t.Errorf("condition %q, want %q", got, tc.condition)
			}
		})
	}
}

// An object of an unknown kind is never healthy.
func TestUnknownKindIsNotHealthy(t *testing.T) {
	s := newShop()
	in := s.Input()
	web := &in.Components[2]
	web.Children = append(web.Children, web.Children[0])
	other := &web.Children[len(web.Children)-1]
	other.Kind, other.Name = corev1.SchemeGroupVersion.WithKind("PodTemplate"), "shop-web"
	child := &corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: fixtures.Namespace, Name: "shop-web", Labels: map[string]string{appsapi.DefaultKeys.OwnerUID: string(s.App.GetUID())}}}
	in.Objects = append(in.Objects, child)
	v := inspect.Evaluate(in)
	if c := v.Component("web"); c.Health != health.Unknown || v.Health != health.Unknown {
		t.Errorf("component %s, application %s, want Unknown", c.Health, v.Health)
	}
}

// An application without components is Unknown.
func TestNoComponentsIsUnknown(t *testing.T) {
	in := newShop().Input()
	in.Components = nil
	if v := inspect.Evaluate(in); v.Health != health.Unknown {
		t.Errorf("got %s, want Unknown", v.Health)
	}
}

// The view does not depend on the order of the objects.
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
		t.Errorf("view (-in order +reversed):\n%s", diff)
	}
}

const notObserved = "Not created: no operator has observed it"

// A service that does not scale is ready, but needs an action.
func TestAutoscalerWithoutMetricsIsAWarning(t *testing.T) {
	s := fixtures.New("appservice", "site", `{image: "nginx:1", ports: [{port: 80}], autoscaling: {maxReplicas: 3, targetCPUUtilization: 50}}`)
	s.RunAll()
	fixtures.Get[*autoscalingv2.HorizontalPodAutoscaler](s, "site").Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{
		Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric", LastTransitionTime: fixtures.Ago(2 * time.Minute),
		Message: "the HPA was unable to compute the replica count: failed to get cpu utilization: missing request for cpu in container app of Pod site-1"}}
	const message = "HorizontalPodAutoscaler site cannot compute the utilization of its pods, which have no cpu request, so it does not scale"
	v := inspect.Evaluate(s.Input())
	if diff := cmp.Diff([]string{"ready, Healthy", "site Healthy 1/1: " + message, "AutoscalerMetricsMissing HorizontalPodAutoscaler/site: " + message}, formatView(v)); diff != "" {
		t.Errorf("view (-want +got):\n%s", diff)
	}
	if want := "Set spec.resources.requests.cpu of the application."; v.Causes[0].Fix != want {
		t.Errorf("fix %q, want %q", v.Causes[0].Fix, want)
	}
}
