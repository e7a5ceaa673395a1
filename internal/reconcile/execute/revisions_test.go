package execute

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// fakeAPIReader returns an application and its revisions.
type fakeAPIReader struct {
	client.Reader
	app       *appsapi.AppStack
	revisions []appsv1.ControllerRevision
}

func (t fakeAPIReader) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*appsv1.ControllerRevisionList).Items = t.revisions
	return nil
}

func (t fakeAPIReader) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	t.app.DeepCopyInto(obj.(*appsapi.AppStack))
	return nil
}

var stackKind = Kind{
	New:     func() Application { return &appsapi.AppStack{} },
	History: func(app Application) (any, int32) { return app.(*appsapi.AppStack).Spec, 0 },
}

// TestStaleSpecDoesNotRenumberRevision simulates a leader that was paused: its cache shows a revision
// that another leader created, but not yet the edit that it belongs to. Its own spec must not become
// the newest revision.
func TestStaleSpecDoesNotRenumberRevision(t *testing.T) {
	now := &appsapi.AppStack{}
	now.Name, now.UID, now.Generation = "shop", "uid", 3
	before := now.DeepCopy()
	before.Generation = 2
	e := &Executor{APIReader: fakeAPIReader{app: now}, Kind: stackKind, ChildKinds: childkind.All}
	s := NewScope(before, desired.Owner{Keys: appsapi.DefaultKeys})
	s.History = revision.Plan{Current: &appsv1.ControllerRevision{Revision: 2}, Number: 4}
	if err := e.saveRevision(t.Context(), s); !errors.Is(err, apply.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

// TestCompletedJobOfUncachedRevisionIsKept checks a revision that the cache lacks because its label was
// just restored: its completed job is not deleted.
func TestCompletedJobOfUncachedRevisionIsKept(t *testing.T) {
	owner := desired.Owner{Keys: appsapi.DefaultKeys, Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "uid"}
	stored := *desired.NewRevision(owner, "0123456789", nil, 1, []string{"abc"})
	e := &Executor{APIReader: fakeAPIReader{revisions: []appsv1.ControllerRevision{stored}}, Kind: stackKind, ChildKinds: childkind.All}
	id := desired.ID{Kind: desired.KindJob, Name: "migrate-abc"}
	for spec, want := range map[string]error{"abc": apply.ErrStale, "other": nil} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsapi.DefaultKeys.JobSpec: spec}}}
		s := NewScope(nil, owner)
		s.Children = rollout.Observed{id: job}
		if err := e.protectCompletedJobs(t.Context(), s, id); err != nil {
			t.Errorf("%s: active job: %v", spec, err)
		}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := e.protectCompletedJobs(t.Context(), s, id); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", spec, err, want)
		}
		s.prunedRevisions[stored.Name] = true
		if err := e.protectCompletedJobs(t.Context(), s, id); err != nil {
			t.Errorf("%s: pruned revision: %v", spec, err)
		}
	}
}
