package engine

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
)

// truth answers with one object.
type truth struct {
	client.Reader
	app *appsapi.AppStack
}

func (t truth) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	t.app.DeepCopyInto(obj.(*appsapi.AppStack))
	return nil
}

// TestAnEarlierSpec is seen by a leader that was stopped for a while: it hears of the
// revision that another one has made, and not yet of the edit that it was made for. That
// does not make its own spec the newest.
func TestAnEarlierSpec(t *testing.T) {
	now := &appsapi.AppStack{}
	now.Name, now.UID, now.Generation = "shop", "uid", 3
	before := now.DeepCopy()
	before.Generation = 2
	r := &reconciler[*appsapi.AppStack]{live: truth{app: now}, kind: Kind[*appsapi.AppStack]{
		New:     func() *appsapi.AppStack { return &appsapi.AppStack{} },
		History: func(s *appsapi.AppStack) (any, int32) { return s.Spec, 0 },
	}}
	o := &observed{history: history.Plan{Current: &appsv1.ControllerRevision{Revision: 2}, Number: 4}}
	if err := r.remember(t.Context(), before, desired.Owner{}, o); !errors.Is(err, apply.ErrStale) {
		t.Errorf("got %v, want that it is out of date", err)
	}
}
