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
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rehearsal"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

const (
	// createOnly is the resourceVersion of an apply that may only create.
	createOnly = "1"
	// standIn is appended to the name of an object that will be deleted and made anew: under
	// its own name the API server would compare the new one with the old one.
	standIn = "-plan"
)

// dryRun asks the API server what would become of objects.
type dryRun struct {
	ctx    context.Context // it lives for one plan
	client client.Client
	owner  desired.Owner
	// real are the objects as they are in the cluster.
	real rollout.Seen
	// unknown are the kinds that the cluster does not have.
	unknown map[schema.GroupVersionKind]bool
	// guessed are those of which the API server could not be asked.
	guessed map[desired.ID]bool
	pods    *corev1.PodList
}

var _ rehearsal.Server = &dryRun{}

func newDryRun(ctx context.Context, c client.Client, in rehearsal.Input, unknown map[schema.GroupVersionKind]bool) *dryRun {
	d := &dryRun{ctx: ctx, client: c, owner: in.Owner, real: maps.Clone(in.Seen), unknown: unknown, guessed: map[desired.ID]bool{}}
	maps.Copy(d.real, in.Others)
	return d
}

// Apply sends what the operator would, as a dry run.
func (d *dryRun) Apply(id desired.ID, config *desired.Config, live rollout.Object, anew bool) (rollout.Object, error) {
	if d.unknown[id.Kind] {
		return nil, &own.UnknownKind{Child: id, Namespace: d.owner.Namespace}
	}
	want, err := config.Fields() // before it gets what is only sent
	if err != nil {
		return nil, err
	}
	if config.HoldsPods() {
		if err := config.CarryPods(live); err != nil {
			return nil, err
		}
	}
	uid, version := types.UID(""), createOnly
	if there := d.real[id]; there != nil && !anew {
		uid, version = there.GetUID(), there.GetResourceVersion()
	}
	body, err := config.Patch(uid, version)
	if err != nil {
		return nil, err
	}
	if live != nil {
		// What others have set and what cannot be beside ours is taken over first, which a
		// dry run cannot show.
		if rivals, err := own.Rivals(want, live); err != nil || len(rivals) > 0 {
			return d.guess(id, body)
		}
	}
	answer, err := d.send(id, body, anew)
	switch {
	case err == nil:
		return answer, nil
	case mayNot(err):
		return d.guess(id, body)
	}
	return nil, d.judged(id, err)
}

// tries is how often something is asked of an object that others write to meanwhile.
const tries = 5

func (d *dryRun) send(id desired.ID, body []byte, anew bool) (rollout.Object, error) {
	for try := 1; ; try++ {
		answer := newObject(d.client, d.owner.Namespace, id)
		if anew {
			answer.SetName(id.Name + standIn)
			var err error
			if body, err = with(body, "name", answer.GetName()); err != nil {
				return nil, err
			}
		}
		err := d.client.Patch(d.ctx, answer, client.RawPatch(types.ApplyPatchType, body),
			client.DryRunAll, client.FieldOwner(appsapi.FieldManager), client.ForceOwnership)
		answer.SetName(id.Name)
		if !apierrors.IsConflict(err) || d.real[id] == nil || try == tries {
			return answer, err
		}
		// Not every kind can be written without its version, and a new status makes a new one.
		if body, err = d.again(id, body); err != nil {
			return nil, err
		}
	}
}

// again is the same for the version that an object has now.
func (d *dryRun) again(id desired.ID, body []byte) ([]byte, error) {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(id.Kind)
	if err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.owner.Namespace, Name: id.Name}, now); err != nil {
		return nil, err
	}
	return with(body, "resourceVersion", now.ResourceVersion)
}

// with sets a field of the metadata of an object.
func with(body []byte, field, value string) ([]byte, error) {
	var all map[string]any
	if err := utiljson.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(all, value, "metadata", field); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// mayNot says whether the caller may not write such objects, dry or not. Quotas and policies
// forbid, too, but they forbid it to the operator as well.
func mayNot(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// judged tells what the API server refuses from what could not be asked.
func (d *dryRun) judged(id desired.ID, err error) error {
	name := fmt.Sprintf("%s %s/%s", id.Kind.Kind, d.owner.Namespace, id.Name)
	var status apierrors.APIStatus
	switch {
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
		return &own.UnknownKind{Child: id, Namespace: d.owner.Namespace}
	case apierrors.IsConflict(err):
		return rehearsal.Unreachable(fmt.Errorf("%s has changed since it was read; plan again", name))
	case !errors.As(err, &status), status.Status().Code >= 500, apierrors.IsTooManyRequests(err):
		return rehearsal.Unreachable(fmt.Errorf("dry run of %s: %w; plan again", name, err))
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
	answer := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: d.owner.Namespace, Name: claim.Name}}
	err = d.client.Patch(d.ctx, answer, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(appsapi.FieldManager))
	switch {
	case err == nil:
		return nil
	case mayNot(err):
		d.guessed[id] = true
		return nil
	}
	return d.judged(id, err)
}

// Claim returns a claim by its name.
func (d *dryRun) Claim(name string) (*corev1.PersistentVolumeClaim, error) {
	var claim corev1.PersistentVolumeClaim
	err := d.client.Get(d.ctx, client.ObjectKey{Namespace: d.owner.Namespace, Name: name}, &claim)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get PersistentVolumeClaim %s/%s: %w", d.owner.Namespace, name, cli.Explained(err))
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
	return false, fmt.Errorf("get Secret %s/%s: %w", d.owner.Namespace, name, cli.Explained(err))
}

// User names a pod of somebody else that uses what is kept.
func (d *dryRun) User(kept desired.Kept) (string, error) {
	if d.pods == nil {
		var pods corev1.PodList
		if err := d.client.List(d.ctx, &pods, client.InNamespace(d.owner.Namespace)); err != nil {
			return "", fmt.Errorf("list pods of namespace %s: %w", d.owner.Namespace, cli.Explained(err))
		}
		d.pods = &pods
	}
	for i := range d.pods.Items {
		pod := &d.pods.Items[i]
		if pod.Labels[appsapi.LabelWorkload] != kept.Workload() && kept.UsedBy(pod) { // its own go before it
			return "Pod " + pod.Name, nil
		}
	}
	return "", nil
}
