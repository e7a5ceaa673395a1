package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

const (
	// createOnlyVersion is the resourceVersion of an apply that must create the object.
	createOnlyVersion = "1"
	// recreateSuffix is appended to the names of recreated objects, because under the same name the API
	// server would validate the dry run as an update of the old object.
	recreateSuffix = "-plan"
)

// dryRun sends dry runs to the API server.
type dryRun struct {
	ctx    context.Context // it lives for one plan
	client client.Client
	owner  desired.Owner

	mu sync.Mutex
	// estimated are the objects without a dry run.
	estimated map[desired.ID]bool
}

var _ simulate.APIServer = &dryRun{}

// Apply sends the apply of the operator as a dry run.
func (d *dryRun) Apply(a simulate.Apply) (rollout.Object, error) {
	want, err := a.Config.Fields() // without fields that are added for the request
	if err != nil {
		return nil, err
	}
	if a.Config.HoldsPodTemplate() {
		if err := a.Config.SendLivePodTemplate(a.Current); err != nil {
			return nil, err
		}
	}
	uid, version := types.UID(""), createOnlyVersion
	if a.Stored != nil && !a.Recreated {
		uid, version = a.Stored.GetUID(), a.Stored.GetResourceVersion()
	}
	body, err := a.Config.Patch(uid, version)
	if err != nil {
		return nil, err
	}
	if a.Stored != nil && !a.Recreated {
		transfer, err := d.needsTransfer(a, want)
		if err != nil {
			return nil, err
		}
		if transfer { // the operator transfers before it applies; a dry run cannot do both
			return d.estimate(a, body)
		}
	}
	result, err := d.sendApply(a, body)
	switch {
	case err == nil:
		return result, nil
	case isPermissionDenied(err):
		return d.estimate(a, body)
	}
	return nil, d.classifyError(a.ID, err)
}

// needsTransfer reports whether the operator rewrites metadata.managedFields before it applies an object. It
// returns the conflict if the object does not allow that.
func (d *dryRun) needsTransfer(a simulate.Apply, want map[string]any) (bool, error) {
	conflicts, err := fieldmanager.UnionConflicts(want, a.Stored)
	if err != nil || len(conflicts) == 0 {
		return false, err
	}
	foreign, err := fieldmanager.ForeignFields(d.owner.Keys.FieldManager, conflicts, a.Stored.GetManagedFields())
	if err != nil {
		return false, err
	}
	if len(foreign) > 0 && !fieldmanager.AllowsTakeover(d.owner.Keys, a.Stored) {
		return false, fieldmanager.NewFieldConflict(d.owner, a.ID, foreign)
	}
	_, changed, err := fieldmanager.TransferFields(d.owner.Keys.FieldManager, a.Stored.GetManagedFields(), a.ID.Kind.GroupVersion().String(), conflicts)
	return changed, err
}

// maxAttempts limits retries after conflicts with other writers.
const maxAttempts = 5

func (d *dryRun) sendApply(a simulate.Apply, body []byte) (rollout.Object, error) {
	for attempt := 1; ; attempt++ {
		result := newObject(d.client, d.owner.Namespace, a.ID)
		if a.Recreated {
			result.SetName(a.ID.Name + recreateSuffix)
			var err error
			if body, err = setMetadataField(body, "name", result.GetName()); err != nil {
				return nil, err
			}
		}
		err := d.client.Patch(d.ctx, result, client.RawPatch(types.ApplyPatchType, body),
			client.DryRunAll, client.FieldOwner(d.owner.Keys.FieldManager), client.ForceOwnership)
		result.SetName(a.ID.Name)
		if !apierrors.IsConflict(err) || a.Stored == nil || attempt == maxAttempts {
			return result, err
		}
		// Retries with the current version, which also changes with the status.
		if body, err = d.withCurrentVersion(a.ID, body); err != nil {
			return nil, err
		}
	}
}

// withCurrentVersion sets the current resourceVersion of an object.
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

// isPermissionDenied reports whether RBAC denied the write. Quotas and policies also return Forbidden, but
// they apply to the operator as well.
func isPermissionDenied(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// classifyError distinguishes rejections from failed requests.
func (d *dryRun) classifyError(id desired.ID, err error) error {
	name := fmt.Sprintf("%s %s/%s", id.Kind.Kind, d.owner.Namespace, id.Name)
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return &ownership.UnknownKind{Child: id, Namespace: d.owner.Namespace}
	case apierrors.IsConflict(err):
		return simulate.Unreachable(fmt.Errorf("%s changed during the plan; run the plan again", name))
	case !errors.As(err, &status), status.Status().Code >= 500, apierrors.IsTooManyRequests(err):
		return simulate.Unreachable(fmt.Errorf("dry run of %s: %w; run the plan again", name, err))
	}
	return err
}

// Resize checks with a dry run whether a claim can request another size.
func (d *dryRun) Resize(claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	id := desired.ID{Kind: desired.KindClaim, Name: claim.Name}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": size.String()}}}})
	if err != nil {
		return err
	}
	result := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: claim.Name}}
	err = d.client.Patch(d.ctx, result, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(d.owner.Keys.FieldManager))
	switch {
	case err == nil:
		return nil
	case isPermissionDenied(err):
		d.markEstimated(id)
		return nil
	}
	return d.classifyError(id, err)
}

func (d *dryRun) markEstimated(id desired.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.estimated[id] = true
}
