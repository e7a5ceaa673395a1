package cli

import (
	"context"
	"fmt"
	"strings"

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

// writeTries is how often the operator's own writes may come between.
const writeTries = 5

// Write writes the spec of an application back, unless somebody has changed it since it was
// read; that the operator wrote its status meanwhile does not matter. With dryRun the API
// server only says whether it would take it.
func Write(ctx context.Context, c client.Client, title string, raw *unstructured.Unstructured, dryRun bool) error {
	options := []client.UpdateOption{client.FieldOwner(FieldManager)}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	written := raw.DeepCopy() // the answer has another generation
	err := c.Update(ctx, written, options...)
	for range writeTries {
		if !apierrors.IsConflict(err) {
			break
		}
		fresh := written.DeepCopy()
		if err := c.Get(ctx, client.ObjectKeyFromObject(raw), fresh); err != nil {
			return fmt.Errorf("get %s: %w", title, Explained(err))
		}
		if fresh.GetUID() != raw.GetUID() || fresh.GetGeneration() != raw.GetGeneration() {
			return fmt.Errorf("%s was changed by somebody else meanwhile, so nothing was written; look at it, and run the same again", title)
		}
		written = fresh
		written.Object["spec"] = raw.Object["spec"]
		err = c.Update(ctx, written, options...)
	}
	switch {
	case apierrors.IsInvalid(err):
		return fmt.Errorf("the API server does not take this spec of %s: %w; edit it by hand: kubectl edit %s %s -n %s", title, err, raw.GetKind(), raw.GetName(), raw.GetNamespace())
	case err != nil:
		return fmt.Errorf("update %s: %w", title, Explained(err))
	}
	return nil
}

// Edit changes the spec of an application, also when others change something else in it at the
// same time. change says whether it changed anything; without, nothing is written.
func Edit(ctx context.Context, c client.Client, app Application, change func(spec map[string]any) (bool, error)) (changed bool, err error) {
	for range writeTries {
		raw, err := Raw(ctx, c, app)
		if err != nil {
			return false, err
		}
		spec, _ := raw.Object["spec"].(map[string]any)
		if changed, err := change(spec); err != nil || !changed {
			return false, err
		}
		err = c.Update(ctx, raw, client.FieldOwner(FieldManager))
		if err == nil {
			return true, nil
		}
		if !apierrors.IsConflict(err) {
			return false, fmt.Errorf("update %s: %w", Title(app), Explained(err))
		}
	}
	return false, fmt.Errorf("%s changes faster than it can be written, so nothing was; run the same again", Title(app))
}

// ComponentSpecs are the components in a spec as the API server has it.
func ComponentSpecs(spec map[string]any) []map[string]any {
	list, _ := spec["components"].([]any)
	var out []map[string]any
	for _, entry := range list {
		if m, ok := entry.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// CheckComponent refuses the name of a component that an application does not have.
func CheckComponent(app Application, name string) error {
	var names []string
	for _, c := range Components(app) {
		if c.Name == name {
			return nil
		}
		names = append(names, c.Name)
	}
	return fmt.Errorf("%s has no component %q; it has %s", Title(app), name, strings.Join(names, ", "))
}
