package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// kubectlApplyManager is the field manager of kubectl apply.
const kubectlApplyManager = "kubectl-client-side-apply"

// appliedApp is the result of kubectl apply for an application.
type appliedApp struct {
	// before is the stored application, or nil. after is the application as it would be stored.
	before, after appkind.Application
	// estimated is set if after was computed without the API server.
	estimated bool
}

// dryRunKubectlApply returns the application as the API server would store it after kubectl apply, with
// defaults and after validation. Without the permission for a dry run, it computes the application.
func dryRunKubectlApply(ctx context.Context, c client.Client, a declaredApp) (out appliedApp, err error) {
	kind, err := appkind.ByAlias(a.owner.Kind)
	if err != nil {
		return out, err
	}
	manifest := sanitizedManifest(a)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(manifest.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(manifest), live)
	if apierrors.IsNotFound(err) {
		created := manifest.DeepCopy()
		err := c.Create(ctx, created, client.DryRunAll, client.FieldOwner(kubectlApplyManager), client.FieldValidation("Strict"))
		if out.estimated = isPermissionDenied(err); out.estimated {
			created, err = estimateCreate(manifest, a), a.validate()
		}
		if err != nil {
			return out, fmt.Errorf("rejected by the API server: %w", cli.WithHint(err))
		}
		out.after = kind.New()
		return out, runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, out.after)
	}
	if err != nil {
		return out, cli.WithHint(err)
	}
	if live.GetDeletionTimestamp() != nil {
		return out, errors.New("it is being deleted; wait for the deletion to finish")
	}
	patch, err := mergePatch(manifest, live)
	if err != nil {
		return out, err
	}
	changed := live.DeepCopy()
	err = c.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(kubectlApplyManager), client.FieldValidation("Strict"))
	if out.estimated = isPermissionDenied(err); out.estimated {
		changed, err = estimatePatch(live, patch)
		err = cmp.Or(err, a.validate())
	}
	if err != nil {
		return out, fmt.Errorf("rejected by the API server: %w", cli.WithHint(err))
	}
	out.before, out.after = kind.New(), kind.New()
	return out, errors.Join(
		runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, out.before),
		runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, out.after))
}

// sanitizedManifest removes fields that the API server sets, which manifests from kubectl get contain.
func sanitizedManifest(a declaredApp) *unstructured.Unstructured {
	manifest := a.manifest.DeepCopy()
	manifest.SetNamespace(a.owner.Namespace)
	delete(manifest.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"} {
		unstructured.RemoveNestedField(manifest.Object, "metadata", field)
	}
	return manifest
}

// mergePatch returns the patch of kubectl apply: it sets the fields of the manifest and removes the fields
// that only the last applied manifest has.
func mergePatch(manifest, live *unstructured.Unstructured) ([]byte, error) {
	modified, err := json.Marshal(manifest.Object)
	if err != nil {
		return nil, err
	}
	current, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	var original []byte
	if last := live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; last != "" {
		original = specOnly(last)
	}
	return jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
}

// specOnly removes everything except for the spec: kubectl handles metadata differently.
func specOnly(manifest string) []byte {
	var object map[string]any
	if json.Unmarshal([]byte(manifest), &object) != nil {
		return nil
	}
	out, err := json.Marshal(map[string]any{"spec": object["spec"]})
	if err != nil {
		return nil
	}
	return out
}

// redactPassword removes the password of a spec from an error: the API server repeats values that it
// rejects.
func redactPassword(err error, a declaredApp) error {
	password, _, _ := unstructured.NestedString(a.manifest.Object, "spec", "db", "rootPass")
	if err == nil || password == "" || !strings.Contains(err.Error(), password) {
		return err
	}
	const placeholder = "(redacted)"
	text := strings.ReplaceAll(err.Error(), fmt.Sprintf("%q", password), placeholder)
	if len(password) > 3 { // shorter passwords would match other words
		text = strings.ReplaceAll(text, password, placeholder)
	}
	return errors.New(text)
}
