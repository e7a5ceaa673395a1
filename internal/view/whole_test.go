package view_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/testutil/scene"
	"github.com/holdfast-dev/holdfast/internal/view"
)

func reported(s *scene.Scene, code, kind, name, message string) {
	st := s.App.ApplicationStatus()
	st.Causes = append(st.Causes, appsapi.Cause{Code: code, Message: message, Since: scene.Before(time.Hour), Object: appsapi.ObjectReference{Kind: kind, Name: name}})
}

func TestWhole(t *testing.T) {
	const (
		conflict = "Service demo/shop-web belongs to somebody else"
		quota    = "ResourceQuota services of namespace demo is used up"
		quarrel  = "somebody else keeps changing Service shop-web"
		unseen   = "SpecNotObserved AppStack/shop: The operator has not looked at the latest change of AppStack shop"
		stuck    = "StuckTerminating AppStack/shop: The deletion of AppStack shop waits for finalizer example.com/backup"
	)
	tests := map[string]struct {
		play func(*scene.Scene)
		want []string
		says string // Reason: Message
	}{
		"the operator says no, and all looks well": {
			play: func(s *scene.Scene) { s.Says("False", "Progressing", "Prunes") },
			want: []string{"not ready, Progressing", migrated, dbIsWell, webIsWell},
			says: "Progressing: Prunes",
		},
		"what only the operator knows": {
			play: func(s *scene.Scene) { s.Says("False", "NameConflict", conflict) },
			want: []string{"not ready, Degraded", migrated, dbIsWell, webIsWell, "NameConflict AppStack/shop: " + conflict},
			says: "NameConflict: " + conflict,
		},
		"what only the operator knows, beside what is seen": {
			play: func(s *scene.Scene) {
				s.Says("False", "NameConflict", conflict)
				s.LacksImage("web")
			},
			want: []string{"not ready, Degraded", migrated, dbIsWell, "web Degraded 0/2: " + notFound,
				"NameConflict AppStack/shop: " + conflict, "ImageNotFound " + firstPod + ": " + notFound},
			says: "NameConflict: " + conflict,
		},
		"what the operator says is seen here, too": {
			play: func(s *scene.Scene) {
				s.Says("False", "ComponentDegraded", notFound)
				s.LacksImage("web")
				reported(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, notFound)
			},
			want: []string{"not ready, Degraded", migrated, dbIsWell, "web Degraded 0/2: " + notFound, "ImageNotFound " + firstPod + ": " + notFound},
			says: "ComponentDegraded: " + notFound,
		},
		"what the operator says is over": {
			play: func(s *scene.Scene) {
				s.Says("False", "Progressing", "Waits")
				reported(s, "CrashLoop", "Pod", "shop-web-gone", "It crashed")
			},
			want: []string{"not ready, Progressing", migrated, dbIsWell, webIsWell},
			says: "Progressing: Waits",
		},
		"nothing explains what the operator says": {
			play: func(s *scene.Scene) { s.Says("False", "ComponentDegraded", "It is broken") },
			want: []string{"not ready, Degraded", migrated, dbIsWell, webIsWell, "ComponentDegraded AppStack/shop: It is broken"},
			says: "ComponentDegraded: It is broken",
		},
		"who may not see pods is told what the operator sees": {
			play: func(s *scene.Scene) {
				s.Says("False", "ComponentDegraded", notFound)
				s.LacksImage("web")
				reported(s, "ImageNotFound", "Pod", s.Pods("web")[0].Name, notFound)
				s.Unread = []string{"Pod"}
			},
			want: []string{"not ready, Degraded", migrated, dbIsWell, "web Progressing 0/2: " + webOnWay, "ImageNotFound " + firstPod + ": " + notFound},
			says: "ComponentDegraded: " + notFound,
		},
		"a write was refused": {
			play: func(s *scene.Scene) {
				s.Says("False", "ApplyFailed", quota)
				s.Remove("Service", "shop-web")
				reported(s, "QuotaExceeded", "Service", "shop-web", quota)
			},
			want: []string{"not ready, Degraded", migrated, dbIsWell, "web Progressing 2/2: Service shop-web does not exist", "QuotaExceeded Service/shop-web: " + quota},
			says: "ApplyFailed: " + quota,
		},
		"the same code of two objects is two causes": {
			play: func(s *scene.Scene) {
				s.Says("False", "Progressing", quarrel)
				reported(s, "FieldConflict", "Service", "shop-web", quarrel)
				reported(s, "FieldConflict", "Deployment", "shop-web", "another")
			},
			want: []string{"not ready, Degraded", migrated, dbIsWell, webIsWell, "FieldConflict Service/shop-web: " + quarrel, "FieldConflict Deployment/shop-web: another"},
			says: "Progressing: " + quarrel,
		},
		"suspended as a whole": {
			play: func(s *scene.Scene) {
				s.Says("True", "Suspended", "Suspended")
				for i := range s.Components {
					s.Components[i].Suspended = true
				}
			},
			want: []string{"ready, Suspended", "migrate Suspended 1/1: It is suspended: nothing is repaired or updated",
				"db Suspended 1/1: It is suspended: nothing is repaired or updated", "web Suspended 2/2: It is suspended: nothing is repaired or updated"},
			says: "Suspended: Suspended",
		},
		"the operator has never looked": {
			play: func(s *scene.Scene) {
				s.Objects = nil
				*s.App.ApplicationStatus() = appsapi.ApplicationStatus{}
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: Job " + jobName() + " does not exist",
				"db Progressing 0/0: StatefulSet shop-db does not exist", "web Progressing 0/0: Deployment shop-web does not exist", unseen},
			says: ": The operator has not looked at it yet",
		},
		"the operator has not looked at a change": {
			play: func(s *scene.Scene) { s.App.SetGeneration(2) },
			want: []string{"not ready, Progressing", migrated, dbIsWell, webIsWell, unseen},
			says: "Progressing: The operator has not looked at the latest change yet",
		},
		"being deleted": {
			play: func(s *scene.Scene) {
				s.Deletes("apps.holdfast.dev/ordered-deletion", "example.com/backup")
				s.Says("False", "Deleting", "Component db is deleted")
				s.Remove("Service", "shop-web")
				s.Remove("Deployment", "shop-web")
				s.Remove("PodDisruptionBudget", "shop-web")
				s.LacksVolumes("db", "fast")
			},
			want: []string{"not ready, Progressing", migrated, "db Progressing 0/1: StatefulSet demo/shop-db waits for its pods to become ready", "web Progressing 0/0: its pods are not gone yet"},
			says: "Deleting: Component db is deleted",
		},
		"being deleted, and a pod does not go": {
			play: func(s *scene.Scene) {
				s.Deletes("apps.holdfast.dev/ordered-deletion")
				s.Says("False", "Deleting", "Component web is deleted")
				pod := s.Pods("web")[0]
				pod.DeletionTimestamp, pod.Finalizers = new(scene.Before(time.Hour)), []string{"example.com/hold"}
				s.Objects = nil
				s.Add(pod)
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: everything of it is gone", "db Progressing 0/0: everything of it is gone",
				"web Degraded 0/0: The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold",
				"StuckTerminating " + firstPod + ": The deletion of Pod shop-web-6d5f7c8b9-x0k4z waits for finalizer example.com/hold"},
			says: "Deleting: Component web is deleted",
		},
		"being deleted, held by somebody else": {
			play: func(s *scene.Scene) {
				s.Deletes("example.com/backup")
				s.Says("False", "Deleting", "Done")
				s.Objects = nil
			},
			want: []string{"not ready, Progressing", "migrate Progressing 0/0: everything of it is gone", "db Progressing 0/0: everything of it is gone",
				"web Progressing 0/0: everything of it is gone", stuck},
			says: "Deleting: Done",
		},
		"being deleted, and the operator does not look": {
			play: func(s *scene.Scene) {
				s.Deletes("apps.holdfast.dev/ordered-deletion")
				s.App.SetGeneration(2)
			},
			want: []string{"not ready, Progressing", migrated, dbIsWell, webIsWell, unseen},
			says: "Progressing: The operator has not looked at the latest change yet",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShop()
			tc.play(s)
			v := view.Of(s.Input())
			if diff := cmp.Diff(tc.want, told(v)); diff != "" {
				t.Errorf("view (-want +got):\n%s", diff)
			}
			if got := v.Reason + ": " + v.Message; got != tc.says {
				t.Errorf("it says %q, want %q", got, tc.says)
			}
		})
	}
}

// What is of a kind that nobody knows is never green.
func TestUnknownKinds(t *testing.T) {
	s := newShop()
	in := s.Input()
	web := &in.Components[2]
	web.Children = append(web.Children, web.Children[0])
	other := &web.Children[len(web.Children)-1]
	other.Kind, other.Name = corev1.SchemeGroupVersion.WithKind("PodTemplate"), "shop-web"
	child := &corev1.PodTemplate{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
		ObjectMeta: metav1.ObjectMeta{Namespace: scene.Namespace, Name: "shop-web", Labels: map[string]string{appsapi.LabelOwnerUID: string(s.App.GetUID())}}}
	in.Objects = append(in.Objects, child)
	v := view.Of(in)
	if c := v.Component("web"); c.Health != health.Unknown || v.Health != health.Unknown {
		t.Errorf("component %s, whole %s, want Unknown", c.Health, v.Health)
	}
}

// An application without components was not understood.
func TestNoComponents(t *testing.T) {
	in := newShop().Input()
	in.Components = nil
	if v := view.Of(in); v.Health != health.Unknown {
		t.Errorf("got %s, want Unknown", v.Health)
	}
}

// The same input has the same view, whatever the order in which lists arrived.
func TestOrderDoesNotMatter(t *testing.T) {
	s := newShop()
	s.LacksImage("web")
	s.LacksVolumes("db", "fast")
	want := told(view.Of(s.Input()))
	in := s.Input()
	for i := range len(in.Objects) / 2 {
		in.Objects[i], in.Objects[len(in.Objects)-1-i] = in.Objects[len(in.Objects)-1-i], in.Objects[i]
	}
	if diff := cmp.Diff(want, told(view.Of(in))); diff != "" {
		t.Errorf("(-in order +backwards):\n%s", diff)
	}
}
