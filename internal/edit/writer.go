package edit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
)

// ReadRaw reads an application again, with the fields that this version of ours does not know: what
// is written back must have them still.
func ReadRaw(ctx context.Context, c client.Reader, app application.Application) (*unstructured.Unstructured, error) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(appsapi.GroupVersion.WithKind(application.KindOf(app)))
	if err := c.Get(ctx, client.ObjectKeyFromObject(app), raw); err != nil {
		return nil, fmt.Errorf("get %s: %w", application.Title(app), err)
	}
	return raw, nil
}

// maxWriteAttempts is how often the operator's own writes may come between.
const maxWriteAttempts = 5

// Writer writes specs of applications.
type Writer struct {
	Client client.Client
	// FieldManager is who the API server notes as the author.
	FieldManager string
	// DryRun lets the API server only say whether it would take it.
	DryRun bool
}

func (w Writer) options() []client.UpdateOption {
	o := []client.UpdateOption{client.FieldOwner(w.FieldManager)}
	if w.DryRun {
		o = append(o, client.DryRunAll)
	}
	return o
}

// Write writes the spec of an application back, unless somebody has changed it since it was
// read; that the operator wrote its status meanwhile does not matter.
func (w Writer) Write(ctx context.Context, title string, raw *unstructured.Unstructured) error {
	obj := raw.DeepCopy() // the answer has another generation
	err := w.Client.Update(ctx, obj, w.options()...)
	for range maxWriteAttempts {
		if !apierrors.IsConflict(err) {
			break
		}
		fresh := obj.DeepCopy()
		if err := w.Client.Get(ctx, client.ObjectKeyFromObject(raw), fresh); err != nil {
			return fmt.Errorf("get %s: %w", title, err)
		}
		if fresh.GetUID() != raw.GetUID() || fresh.GetGeneration() != raw.GetGeneration() {
			return changedMeanwhileError("%s was changed by somebody else meanwhile, so nothing was written; look at it, and run the same again", title)
		}
		obj = fresh
		obj.Object["spec"] = raw.Object["spec"]
		err = w.Client.Update(ctx, obj, w.options()...)
	}
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the API server does not take this spec of %s: %w; edit it by hand: kubectl edit %s %s -n %s", title, err, raw.GetKind(), raw.GetName(), raw.GetNamespace())
	case err != nil:
		return fmt.Errorf("update %s: %w", title, err)
	}
	return nil
}

// Edit changes the spec of an application, also when others change something else in it at the
// same time. change says whether it changed anything; without, nothing is written.
func (w Writer) Edit(ctx context.Context, app application.Application, change func(spec map[string]any) (bool, error)) (changed bool, err error) {
	for range maxWriteAttempts {
		raw, err := ReadRaw(ctx, w.Client, app)
		if err != nil {
			return false, err
		}
		if raw.GetUID() != app.GetUID() {
			return false, changedMeanwhileError("%s was deleted and created again meanwhile, so nothing was written; look at it, and run the same again", application.Title(app))
		}
		spec, _ := raw.Object["spec"].(map[string]any)
		if changed, err := change(spec); err != nil || !changed {
			return false, err
		}
		err = w.Client.Update(ctx, raw, w.options()...)
		if err == nil {
			return true, nil
		}
		if !apierrors.IsConflict(err) {
			return false, fmt.Errorf("update %s: %w", application.Title(app), err)
		}
	}
	return false, changedMeanwhileError("%s changes faster than it can be written, so nothing was; run the same again", application.Title(app))
}

func changedMeanwhileError(format string, args ...any) error {
	r := application.UserErrorf(format, args...)
	r.Conflict = true
	return r
}
