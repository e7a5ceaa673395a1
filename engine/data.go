package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// prepareData does what has to be done about data before its component is applied. One for
// which that fails is not applied at all.
func (r *reconciler[T]) prepareData(ctx context.Context, app T, owner desired.Owner, o *observed, plan *rollout.Plan, res *result) {
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if step.Data == nil || !step.Data.PodsAllowed {
			continue
		}
		c := o.component(step.Component)
		if o.children[c.Workload] == nil && !slices.ContainsFunc(step.Apply, func(a rollout.ChildApply) bool { return a.ID == c.Workload }) {
			continue // it waits for something else
		}
		if err := r.prepareComponentData(ctx, app, owner, o, c, step.Data, res); err != nil {
			res.childErrs[c.Workload] = err
			step.RemoveFirst, step.Apply, step.Remove, step.Data.ResizeClaims, step.Data.RecreateStatefulSet = nil, nil, nil, nil, false
		}
	}
}

// prepareComponentData makes the data of a component say that it is the component's, makes the credentials
// if there have never been any, and makes sure that no pod can begin with other data.
func (r *reconciler[T]) prepareComponentData(ctx context.Context, app T, owner desired.Owner, o *observed, c desired.Component, d *rollout.DataPlan, res *result) error {
	if (o.children[c.Workload] == nil || d.CreateSecret) && !o.retainedVerified {
		if err := r.verifyAppGeneration(ctx, app); err != nil {
			return err
		}
		if err := r.verifyRetained(ctx, owner, r.kind.Components(app), o.retainedObjects, c.Name); err != nil {
			return err
		}
		o.retainedVerified = true // what is different from here on is our own doing
	}
	if err := r.recordServerVersion(ctx, owner, o, c, d); err != nil {
		return err
	}
	adoptable, err := r.adoptableClaims(ctx, owner, c, d.NewClaims)
	if err != nil {
		return err
	}
	for _, l := range d.Relabel {
		if err := r.applier.LabelRetained(ctx, owner, l.RetainedObject, l.DesiredLabels); err != nil {
			return err
		}
		if l.MarkedRetained() {
			res.changes = append(res.changes, change{c.Name, l.ID, apply.Adopted})
		}
	}
	if d.CreateSecret {
		if err := r.applier.CreateSecret(ctx, owner, c); err != nil {
			return err
		}
		res.changes = append(res.changes, change{c.Name, desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}, apply.Created})
		for _, credential := range c.Data.Credentials {
			if credential.Value != "" {
				res.events = append(res.events, passwordInSpecEvent(c.Name, c.Data.Secret, credential.Key))
			}
		}
	}
	if d.CompleteSecret {
		if err := r.applier.CompleteSecret(ctx, owner, c); err != nil {
			return err
		}
	}
	// After the credentials: data that is ours and has none looks as if they were lost.
	for _, k := range adoptable {
		if err := r.applier.LabelRetained(ctx, owner, k, desired.RetainedLabels(owner, c)); err != nil {
			return err
		}
		res.changes = append(res.changes, change{c.Name, k.ID, apply.Adopted})
	}
	return nil
}

// recordServerVersion writes on the claims of a database which server has written what is on them, so that an
// older one is never let near, and what its schema is called. It survives everything that the volume survives.
func (r *reconciler[T]) recordServerVersion(ctx context.Context, owner desired.Owner, o *observed, c desired.Component, d *rollout.DataPlan) error {
	version, image := o.serverVersions[c.Name], o.startedImages[c.Name]
	if version == "" && image == "" || len(d.Relabel) > 0 { // first things first: both are about what was seen
		return nil
	}
	for _, k := range c.Data.Retained {
		annotations := map[string]string{
			appsapi.AnnotationServerVersion: version, appsapi.AnnotationServerImage: c.Database.Image, appsapi.AnnotationSchema: c.Database.Database,
		}
		if version == "" {
			// It has not said yet what it is, and may never: its image does.
			newer, ok := newerSeries(c.Database.ImageVersion(image), k.GetAnnotations()[appsapi.AnnotationServerVersion])
			if !ok {
				continue
			}
			annotations = map[string]string{appsapi.AnnotationServerVersion: newer, appsapi.AnnotationServerImage: image}
		}
		if k.Claim == nil || hasAnnotations(k.GetAnnotations(), annotations) {
			continue
		}
		if err := r.applier.AnnotateRetained(ctx, owner, k, annotations); err != nil {
			return err
		}
	}
	return nil
}

// newerSeries is that of a server, if it is known and newer than what has written a volume.
func newerSeries(current mariadb.Version, recorded string) (string, bool) {
	recordedVersion, err := mariadb.ParseVersion(recorded)
	return current.Series(), current != mariadb.Version{} && (err != nil || recordedVersion.OlderThan(current))
}

func hasAnnotations(annotations, want map[string]string) bool {
	for k, v := range want {
		if annotations[k] != v {
			return false
		}
	}
	return true
}

// expandVolumes requests the declared size of each claim, and recreates the StatefulSet once all claims have it.
func (r *reconciler[T]) expandVolumes(ctx context.Context, app T, owner desired.Owner, o *observed, plan rollout.Plan, res *result) {
	for _, step := range plan.Steps {
		if step.Data == nil || len(step.Data.ResizeClaims) == 0 && !step.Data.RecreateStatefulSet {
			continue
		}
		c := o.component(step.Component)
		if res.childErrs[c.Workload] != nil {
			continue
		}
		if err := r.verifyAppGeneration(ctx, app); err != nil {
			res.childErrs[c.Workload] = err
			continue
		}
		for _, g := range step.Data.ResizeClaims {
			id := desired.ID{Kind: desired.KindClaim, Name: g.Claim.Name}
			if err := r.applier.ResizeClaim(ctx, owner, g.Claim, g.Size); err != nil {
				res.childErrs[id] = asResizeRejected(err)
			}
		}
		if step.Data.RecreateStatefulSet {
			if err := r.applier.OrphanPods(ctx, owner, c.Workload, res.child(c.Workload)); err != nil {
				res.childErrs[c.Workload] = err
				continue
			}
			// The cache still shows the old one, which was ready; the application is not before the
			// next one is.
			delete(res.children, c.Workload)
		}
	}
}

// resizeRejectedError is that the API server does not let a claim ask for another size.
type resizeRejectedError struct{ error }

func (g resizeRejectedError) Unwrap() error { return g.error }

func asResizeRejected(err error) error {
	if apply.IsRejected(err) || cachedRejection(err) != nil {
		return resizeRejectedError{err}
	}
	return err
}

// reconcileUnusedData does what has to be done about data that no component has.
func (r *reconciler[T]) reconcileUnusedData(ctx context.Context, app T, owner desired.Owner, o *observed, plan rollout.Plan, res *result) {
	for _, l := range plan.Retain {
		// One that is in the spec, and refused to have its data, may still run with it.
		if !slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.WorkloadID == l.WorkloadID() }) {
			if _, err := r.deleteOrphans(ctx, app, owner, l.RetainedObject); err != nil {
				res.childErrs[l.ID] = err
				continue
			}
		}
		if err := r.applier.LabelRetained(ctx, owner, l.RetainedObject, l.DesiredLabels); err != nil {
			res.childErrs[l.ID] = err
		}
	}
	res.changes = append(res.changes, newlyRetained(plan.Retain, res.childErrs, o.unusedRetained)...)
	for _, k := range plan.Purge {
		if err := r.verifyAppGeneration(ctx, app); err != nil {
			res.childErrs[k.ID] = err
			return
		}
		_, err := r.deleteOrphans(ctx, app, owner, k)
		purged := false
		if err == nil {
			purged, err = r.purgeIfUnused(ctx, owner, k)
		}
		switch {
		case err != nil:
			res.childErrs[k.ID] = err
		case purged:
			res.changes = append(res.changes, change{k.Component(), k.ID, removedChange})
		}
	}
}

// newlyRetained is all that is kept of the components whose last piece was just marked. It is told at
// once: a second event about the same component is counted, and nobody would read of its claim.
func newlyRetained(marked []rollout.LabelUpdate, errs map[desired.ID]error, retained []desired.RetainedObject) []change {
	touched, incomplete := map[string]bool{}, map[string]bool{}
	for _, l := range marked {
		touched[l.Component()] = true
		if errs[l.ID] != nil {
			incomplete[l.Component()] = true
		}
	}
	var out []change
	for _, k := range retained {
		if touched[k.Component()] && !incomplete[k.Component()] {
			out = append(out, change{k.Component(), k.ID, retainedChange})
		}
	}
	return out
}

// purgeIfUnused deletes what is kept, if nobody uses it: its set is gone, and no pod has it. What
// is in use is looked at again when that changes.
func (r *reconciler[T]) purgeIfUnused(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (bool, error) {
	if k.GetDeletionTimestamp() != nil {
		return false, nil
	}
	user, err := r.findUser(ctx, owner, k)
	if err != nil || user != "" {
		return false, err
	}
	return true, r.applier.PurgeRetained(ctx, owner, k)
}

// findStatefulSet names the set that has something that is kept, or nothing.
func (r *reconciler[T]) findStatefulSet(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (string, error) {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(desired.KindStatefulSet)
	err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: k.StatefulSetName()}, set)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get StatefulSet %s/%s: %w", owner.Namespace, k.StatefulSetName(), err)
	}
	return "StatefulSet " + set.Name, nil
}

// findUser names what uses something that is kept, or nothing.
func (r *reconciler[T]) findUser(ctx context.Context, owner desired.Owner, k desired.RetainedObject) (string, error) {
	if set, err := r.findStatefulSet(ctx, owner, k); err != nil || set != "" {
		return set, err
	}
	var pods corev1.PodList
	if err := r.apiReader.List(ctx, &pods, client.InNamespace(owner.Namespace)); err != nil {
		return "", fmt.Errorf("list pods of namespace %s: %w", owner.Namespace, err)
	}
	for i := range pods.Items {
		if k.UsedBy(&pods.Items[i]) {
			return "Pod " + pods.Items[i].Name, nil
		}
	}
	return "", nil
}

// finalizeData does what has to be done about the data of an application that is deleted, once
// all that used it is gone. It is over when nothing is left to say or to delete.
func (r *reconciler[T]) finalizeData(ctx context.Context, app T, owner desired.Owner, res *result) (finished bool) {
	specs := r.kind.Components(app)
	retained, err := r.listRetained(ctx, owner, specs)
	if err == nil && !rollout.HasData(owner, desired.Build(owner, specs, desired.ClusterState{Retained: retained}), retained) {
		return true
	}
	if err == nil {
		retained, err = r.listRetainedLive(ctx, owner, specs)
	}
	if err != nil {
		res.observeErr = err
		return false
	}
	finished = true
	for _, s := range rollout.FinalizeData(owner, desired.Build(owner, specs, desired.ClusterState{Retained: retained}), retained, r.deletesData(app)) {
		deleted, err := r.deleteOrphans(ctx, app, owner, s.RetainedObject)
		switch {
		case err != nil:
			res.childErrs[s.ID], finished = err, false
		case deleted:
			finished = false // what becomes of the data is said when nobody uses it
		case s.Purge:
			user, err := r.findUser(ctx, owner, s.RetainedObject)
			if err == nil && user != "" {
				continue // given away, and its data with it
			}
			finished = false
			if err == nil {
				err = r.verifyAppGeneration(ctx, app)
			}
			if err == nil && s.GetDeletionTimestamp() == nil {
				err = r.applier.PurgeRetained(ctx, owner, s.RetainedObject)
			}
			if err != nil {
				res.childErrs[s.ID] = err
			}
		default:
			if err := r.applier.LabelRetained(ctx, owner, s.RetainedObject, s.DesiredLabels); err != nil {
				res.childErrs[s.ID], finished = err, false
			}
		}
	}
	return finished
}

// deletesData says whether data goes with what it belongs to.
func (r *reconciler[T]) deletesData(app T) bool {
	return r.kind.DeletionPolicy != nil && r.kind.DeletionPolicy(app) == appsapi.DeletionDelete
}

// isMissingSource says whether something to copy from is missing.
func isMissingSource(err error) bool {
	var missing *ownership.CredentialSourceError
	return errors.As(err, &missing)
}

// isLostCredential says whether a password is gone that data is opened with.
func isLostCredential(err error) bool {
	var lost *ownership.LostCredential
	return errors.As(err, &lost)
}
