package engine

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
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// fakeAPIReader answers with an application and its revisions.
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

// TestStaleSpecDoesNotRenumberRevision is seen by a leader that was stopped for a while: it hears of the
// revision that another one has made, and not yet of the edit that it was made for. That
// does not make its own spec the newest.
func TestStaleSpecDoesNotRenumberRevision(t *testing.T) {
	now := &appsapi.AppStack{}
	now.Name, now.UID, now.Generation = "shop", "uid", 3
	before := now.DeepCopy()
	before.Generation = 2
	r := &reconciler[*appsapi.AppStack]{apiReader: fakeAPIReader{app: now}, kind: Kind[*appsapi.AppStack]{
		New:     func() *appsapi.AppStack { return &appsapi.AppStack{} },
		History: func(s *appsapi.AppStack) (any, int32) { return s.Spec, 0 },
	}}
	o := &observed{history: history.Plan{Current: &appsv1.ControllerRevision{Revision: 2}, Number: 4}}
	if err := r.saveRevision(t.Context(), before, desired.Owner{}, o); !errors.Is(err, apply.ErrStale) {
		t.Errorf("got %v, want that it is out of date", err)
	}
}

// TestCompletedJobOfUncachedRevisionIsKept is about a revision that the cache has not heard of, because it
// lost its label and has only just got it back: the job that has run for it is not deleted.
func TestCompletedJobOfUncachedRevisionIsKept(t *testing.T) {
	owner := desired.Owner{Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "uid"}
	revision := *desired.NewRevision(owner, "0123456789", nil, 1, []string{"abc"})
	r := &reconciler[*appsapi.AppStack]{apiReader: fakeAPIReader{revisions: []appsv1.ControllerRevision{revision}},
		kind: Kind[*appsapi.AppStack]{History: func(s *appsapi.AppStack) (any, int32) { return s.Spec, 0 }}}
	id := desired.ID{Kind: desired.KindJob, Name: "migrate-abc"}
	for spec, want := range map[string]error{"abc": apply.ErrStale, "other": nil} {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{appsapi.AnnotationJobSpec: spec}}}
		res := newResult("shop", rollout.Observed{id: job})
		if err := r.protectCompletedJobs(t.Context(), owner, id, &res); err != nil {
			t.Errorf("%s: of a run that has not ended: %v", spec, err)
		}
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := r.protectCompletedJobs(t.Context(), owner, id, &res); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", spec, err, want)
		}
		res.prunedRevisions[revision.Name] = true
		if err := r.protectCompletedJobs(t.Context(), owner, id, &res); err != nil {
			t.Errorf("%s: of a revision that goes: %v", spec, err)
		}
	}
}
