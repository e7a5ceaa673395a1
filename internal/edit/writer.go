package edit

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// ReadRaw reads an application including fields that this version does not know, so that an update keeps
// them.
func ReadRaw(ctx context.Context, c client.Reader, app appkind.Application) (*unstructured.Unstructured, error) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(appkind.Of(app).GroupVersionKind)
	if err := c.Get(ctx, client.ObjectKeyFromObject(app), raw); err != nil {
		return nil, fmt.Errorf("get %s: %w", appkind.Title(app), err)
	}
	return raw, nil
}

// maxWriteAttempts limits the retries after conflicts with status updates of the operator.
const maxWriteAttempts = 5

// Writer writes specs of applications.
type Writer struct {
	Client client.Client
	// FieldManager is the field manager of the updates.
	FieldManager string
	// DryRun only validates updates on the API server.
	DryRun bool
}

func (w Writer) options() []client.UpdateOption {
	o := []client.UpdateOption{client.FieldOwner(w.FieldManager)}
	if w.DryRun {
		o = append(o, client.DryRunAll)
	}
	return o
}

// Write updates the spec of an application, unless its spec has changed since it was read. Status updates
// in the meantime do not matter.
func (w Writer) Write(ctx context.Context, title string, raw *unstructured.Unstructured) error {
	obj := raw.DeepCopy() // Update changes the generation of its argument
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
			return changedMeanwhileError("%s was changed by another client in the meantime, so nothing was written; check it, then retry", title)
		}
		obj = fresh
		obj.Object["spec"] = raw.Object["spec"]
		err = w.Client.Update(ctx, obj, w.options()...)
	}
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the API server rejects this spec of %s: %w; edit it manually: kubectl edit %s %s -n %s", title, err, raw.GetKind(),
			raw.GetName(), raw.GetNamespace())
	case err != nil:
		return fmt.Errorf("update %s: %w", title, err)
	}
	return nil
}

// Edit changes the spec of an application and retries on conflicts, so concurrent changes of other fields
// are kept. change reports whether it changed anything; if not, nothing is written.
func (w Writer) Edit(ctx context.Context, app appkind.Application, change func(spec map[string]any) (bool, error)) (changed bool, err error) {
	for range maxWriteAttempts {
		raw, err := ReadRaw(ctx, w.Client, app)
		if err != nil {
			return false, err
		}
		if raw.GetUID() != app.GetUID() {
			return false, changedMeanwhileError("%s was deleted and recreated in the meantime, so nothing was written; check it, then retry",
				appkind.Title(app))
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
			return false, fmt.Errorf("update %s: %w", appkind.Title(app), err)
		}
	}
	return false, changedMeanwhileError("%s keeps changing while it is being updated, so nothing was written; retry", appkind.Title(app))
}

func changedMeanwhileError(format string, args ...any) error {
	r := appkind.UserErrorf(format, args...)
	r.Conflict = true
	return r
}
