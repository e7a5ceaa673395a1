package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

const (
	// createOnlyVersion is the resourceVersion of an apply that may only create.
	createOnlyVersion = "1"
	// recreateSuffix is appended to the name of an object that will be deleted and made anew: under
	// its own name the API server would compare the new one with the old one.
	recreateSuffix = "-plan"
)

// dryRun asks the API server what would become of objects.
type dryRun struct {
	ctx    context.Context // it lives for one plan
	client client.Client
	owner  desired.Owner
	// live are the objects as they are in the cluster.
	live rollout.Observed
	// missingKinds are the kinds that the cluster does not have.
	missingKinds map[schema.GroupVersionKind]bool
	// estimated are those of which the API server could not be asked.
	estimated map[desired.ID]bool
	pods      *corev1.PodList
}

var _ simulate.APIServer = &dryRun{}

func newDryRun(ctx context.Context, c client.Client, in simulate.Input, missingKinds map[schema.GroupVersionKind]bool) *dryRun {
	d := &dryRun{ctx: ctx, client: c, owner: in.Owner, live: maps.Clone(in.Observed), missingKinds: missingKinds, estimated: map[desired.ID]bool{}}
	maps.Copy(d.live, in.Unowned)
	return d
}

// Apply sends what the operator would, as a dry run.
func (d *dryRun) Apply(id desired.ID, config *desired.Config, live rollout.Object, recreate bool) (rollout.Object, error) {
	if d.missingKinds[id.Kind] {
		return nil, &ownership.UnknownKind{Child: id, Namespace: d.owner.Namespace}
	}
	want, err := config.Fields() // before it gets what is only sent
	if err != nil {
		return nil, err
	}
	if config.HoldsPodTemplate() {
		if err := config.KeepPodTemplate(live); err != nil {
			return nil, err
		}
	}
	uid, version := types.UID(""), createOnlyVersion
	if existing := d.live[id]; existing != nil && !recreate {
		uid, version = existing.GetUID(), existing.GetResourceVersion()
	}
	body, err := config.Patch(uid, version)
	if err != nil {
		return nil, err
	}
	if live != nil {
		// What others have set and what cannot be beside ours is taken over first, which a
		// dry run cannot show.
		if conflicts, err := ownership.UnionConflicts(want, live); err != nil || len(conflicts) > 0 {
			return d.estimate(id, body)
		}
	}
	result, err := d.sendApply(id, body, recreate)
	switch {
	case err == nil:
		return result, nil
	case isPermissionDenied(err):
		return d.estimate(id, body)
	}
	return nil, d.classifyError(id, err)
}

// maxAttempts is how often something is asked of an object that others write to meanwhile.
const maxAttempts = 5

func (d *dryRun) sendApply(id desired.ID, body []byte, recreate bool) (rollout.Object, error) {
	for attempt := 1; ; attempt++ {
		result := newObject(d.client, d.owner.Namespace, id)
		if recreate {
			result.SetName(id.Name + recreateSuffix)
			var err error
			if body, err = setMetadataField(body, "name", result.GetName()); err != nil {
				return nil, err
			}
		}
		err := d.client.Patch(d.ctx, result, client.RawPatch(types.ApplyPatchType, body),
			client.DryRunAll, client.FieldOwner(appsapi.FieldManager), client.ForceOwnership)
		result.SetName(id.Name)
		if !apierrors.IsConflict(err) || d.live[id] == nil || attempt == maxAttempts {
			return result, err
		}
		// Not every kind can be written without its version, and a new status makes a new one.
		if body, err = d.withCurrentVersion(id, body); err != nil {
			return nil, err
		}
	}
}

// withCurrentVersion is the same for the version that an object has now.
func (d *dryRun) withCurrentVersion(id desired.ID, body []byte) ([]byte, error) {
	current := &metav1.PartialObjectMetadata{}
	current.SetGroupVersionKind(id.Kind)
	if err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.owner.Namespace, Name: id.Name}, current); err != nil {
		return nil, err
	}
	return setMetadataField(body, "resourceVersion", current.ResourceVersion)
}

// setMetadataField sets a field of the metadata of an object.
func setMetadataField(body []byte, field, value string) ([]byte, error) {
	var object map[string]any
	if err := utiljson.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(object, value, "metadata", field); err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// isPermissionDenied says whether the caller may not write such objects, dry or not. Quotas and policies
// forbid, too, but they forbid it to the operator as well.
func isPermissionDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// classifyError tells what the API server refuses from what could not be asked.
func (d *dryRun) classifyError(id desired.ID, err error) error {
	name := fmt.Sprintf("%s %s/%s", id.Kind.Kind, d.owner.Namespace, id.Name)
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return &ownership.UnknownKind{Child: id, Namespace: d.owner.Namespace}
	case apierrors.IsConflict(err):
		return simulate.Unreachable(fmt.Errorf("%s has changed since it was read; plan again", name))
	case !errors.As(err, &status), status.Status().Code >= 500, apierrors.IsTooManyRequests(err):
		return simulate.Unreachable(fmt.Errorf("dry run of %s: %w; plan again", name, err))
	}
	return err
}

// Resize asks whether a claim may ask for another size.
func (d *dryRun) Resize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	id := desired.ID{Kind: desired.KindClaim, Name: claim.Name}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size.String()}}}})
	if err != nil {
		return err
	}
	result := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: claim.Name}}
	err = d.client.Patch(d.ctx, result, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(appsapi.FieldManager))
	switch {
	case err == nil:
		return nil
	case isPermissionDenied(err):
		d.estimated[id] = true
		return nil
	}
	return d.classifyError(id, err)
}

// GetClaim returns a claim by its name.
func (d *dryRun) GetClaim(name string) (*corev1.PersistentVolumeClaim, error) {
	var claim corev1.PersistentVolumeClaim
	err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.owner.Namespace, Name: name}, &claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get PersistentVolumeClaim %s/%s: %w", d.owner.Namespace, name, cli.WithHint(err))
	}
	return &claim, nil
}

// HasSecret says whether there is a Secret of a name, as far as the caller may know.
func (d *dryRun) HasSecret(name string) (bool, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(desired.KindSecret)
	err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.owner.Namespace, Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err == nil, apierrors.IsForbidden(err):
		return true, nil
	}
	return false, fmt.Errorf("get Secret %s/%s: %w", d.owner.Namespace, name, cli.WithHint(err))
}

// PodUsing names a pod of somebody else that uses what is kept.
func (d *dryRun) PodUsing(retained desired.RetainedObject) (string, error) {
	if d.pods == nil {
		var pods corev1.PodList
		if err := d.client.List(d.ctx, &pods, client.InNamespace(d.owner.Namespace)); err != nil {
			return "", fmt.Errorf("list pods of namespace %s: %w", d.owner.Namespace, cli.WithHint(err))
		}
		d.pods = &pods
	}
	for i := range d.pods.Items {
		pod := &d.pods.Items[i]
		if pod.Labels[appsapi.LabelWorkload] != retained.WorkloadID() && retained.UsedBy(pod) { // its own go before it
			return "Pod " + pod.Name, nil
		}
	}
	return "", nil
}
