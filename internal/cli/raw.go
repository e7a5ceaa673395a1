package cli

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// FieldManager is who the API server notes as the author of what the plugin writes.
const FieldManager = "kubectl-holdfast"

// Raw reads an application again, with the fields that this version of the plugin does not
// know: what is written back must have them still.
func Raw(ctx context.Context, c client.Reader, app Application) (*unstructured.Unstructured, error) {
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(appsapi.GroupVersion.WithKind(KindOf(app)))
	if err := c.Get(ctx, client.ObjectKeyFromObject(app), raw); err != nil {
		return nil, fmt.Errorf("get %s: %w", Title(app), Explained(err))
	}
	return raw, nil
}

// Write writes an application back, unless somebody was faster. With dryRun the API server
// only says whether it would take it.
func Write(ctx context.Context, c client.Writer, title string, raw *unstructured.Unstructured, dryRun bool) error {
	options := []client.UpdateOption{client.FieldOwner(FieldManager)}
	if dryRun {
		raw = raw.DeepCopy()
		options = append(options, client.DryRunAll)
	}
	switch err := c.Update(ctx, raw, options...); {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s was changed by somebody else meanwhile, so nothing was written; look at it, and run the same again", title)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the API server does not take this spec of %s: %w; edit it by hand: kubectl edit %s %s -n %s", title, err, raw.GetKind(), raw.GetName(), raw.GetNamespace())
	case err != nil:
		return fmt.Errorf("update %s: %w", title, Explained(err))
	}
	return nil
}
