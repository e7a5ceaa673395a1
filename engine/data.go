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
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// prepare does what has to be done about data before its component is applied. One for
// which that fails is not applied at all.
func (r *reconciler[T]) prepare(ctx context.Context, app T, owner desired.Owner, o *observed, plan *rollout.Plan, done *outcome) {
	for i := range plan.Steps {
		step := &plan.Steps[i]
		if step.Data == nil || !step.Data.Start {
			continue
		}
		c := o.component(step.Component)
		if o.seen[c.Workload] == nil && !slices.ContainsFunc(step.Apply, func(a rollout.Application) bool { return a.ID == c.Workload }) {
			continue // it waits for something else
		}
		if err := r.begin(ctx, app, owner, o, c, step.Data, done); err != nil {
			done.errors[c.Workload] = err
			step.First, step.Apply, step.Remove, step.Data.Grow, step.Data.Renew = nil, nil, nil, nil, false
		}
	}
}

// begin makes the data of a component say that it is the component's, makes the credentials
// if there have never been any, and makes sure that no pod can begin with other data.
func (r *reconciler[T]) begin(ctx context.Context, app T, owner desired.Owner, o *observed, c desired.Component, d *rollout.Data, done *outcome) error {
	if (o.seen[c.Workload] == nil || d.Create) && !o.looked {
		if err := r.stillSo(ctx, app); err != nil {
			return err
		}
		if err := r.lookAgain(ctx, owner, r.kind.Components(app), o.kept, c.Name); err != nil {
			return err
		}
		o.looked = true // what is different from here on is our own doing
	}
	if err := r.noteVersion(ctx, owner, o, c, d); err != nil {
		return err
	}
	given, err := r.freeClaims(ctx, owner, c, d.Claims)
	if err != nil {
		return err
	}
	for _, l := range d.Label {
		if err := r.applier.Label(ctx, owner, l.Kept, l.Want); err != nil {
			return err
		}
		if l.Retained() {
			done.changes = append(done.changes, change{c.Name, l.ID, apply.Adopted})
		}
	}
	if d.Create {
		if err := r.applier.CreateSecret(ctx, owner, c); err != nil {
			return err
		}
		done.changes = append(done.changes, change{c.Name, desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}, apply.Created})
		for _, credential := range c.Data.Credentials {
			if credential.Value != "" {
				done.told = append(done.told, plainPassword(c.Name, c.Data.Secret, credential.Key))
			}
		}
	}
	if d.Complete {
		if err := r.applier.CompleteSecret(ctx, owner, c); err != nil {
			return err
		}
	}
	// After the credentials: data that is ours and has none looks as if they were lost.
	for _, k := range given {
		if err := r.applier.Label(ctx, owner, k, desired.KeptLabels(owner, c)); err != nil {
			return err
		}
		done.changes = append(done.changes, change{c.Name, k.ID, apply.Adopted})
	}
	return nil
}

// noteVersion writes on the claims of a database which server has written what is on them, so that an
// older one is never let near, and what its schema is called. It survives everything that the volume survives.
func (r *reconciler[T]) noteVersion(ctx context.Context, owner desired.Owner, o *observed, c desired.Component, d *rollout.Data) error {
	version, image := o.serverVersions[c.Name], o.startedServers[c.Name]
	if version == "" && image == "" || len(d.Label) > 0 { // first things first: both are about what was seen
		return nil
	}
	for _, k := range c.Data.Kept {
		wrote := map[string]string{
			appsapi.AnnotationServerVersion: version, appsapi.AnnotationServerImage: c.Database.Image, appsapi.AnnotationSchema: c.Database.Database,
		}
		if version == "" {
			// It has not said yet what it is, and may never: its image does.
			newer, ok := newerSeries(c.Database.VersionOf(image), k.GetAnnotations()[appsapi.AnnotationServerVersion])
			if !ok {
				continue
			}
			wrote = map[string]string{appsapi.AnnotationServerVersion: newer, appsapi.AnnotationServerImage: image}
		}
		if k.Claim == nil || has(k.GetAnnotations(), wrote) {
			continue
		}
		if err := r.applier.Note(ctx, owner, k, wrote); err != nil {
			return err
		}
	}
	return nil
}

// newerSeries is that of a server, if it is known and newer than what has written a volume.
func newerSeries(is mariadb.Version, wrote string) (string, bool) {
	was, err := mariadb.ParseVersion(wrote)
	return is.Series(), is != mariadb.Version{} && (err != nil || was.OlderThan(is))
}

func has(annotations, want map[string]string) bool {
	for k, v := range want {
		if annotations[k] != v {
			return false
		}
	}
	return true
}

// grow makes claims ask for the size that the spec says, and the set anew when all do.
func (r *reconciler[T]) grow(ctx context.Context, app T, owner desired.Owner, o *observed, plan rollout.Plan, done *outcome) {
	for _, step := range plan.Steps {
		if step.Data == nil || len(step.Data.Grow) == 0 && !step.Data.Renew {
			continue
		}
		c := o.component(step.Component)
		if done.errors[c.Workload] != nil {
			continue
		}
		if err := r.stillSo(ctx, app); err != nil {
			done.errors[c.Workload] = err
			continue
		}
		for _, g := range step.Data.Grow {
			id := desired.ID{Kind: desired.KindClaim, Name: g.Claim.Name}
			if err := r.applier.Resize(ctx, owner, g.Claim, g.Size); err != nil {
				done.errors[id] = refusedGrowth(err)
			}
		}
		if step.Data.Renew {
			if err := r.applier.Orphan(ctx, owner, c.Workload, done.child(c.Workload)); err != nil {
				done.errors[c.Workload] = err
			}
		}
	}
}

// growthRefused is that the API server does not let a claim ask for another size.
type growthRefused struct{ error }

func (g growthRefused) Unwrap() error { return g.error }

func refusedGrowth(err error) error {
	if apply.IsRefused(err) || refusedBefore(err) != nil {
		return growthRefused{err}
	}
	return err
}

// settleLeftovers does what has to be done about data that no component has.
func (r *reconciler[T]) settleLeftovers(ctx context.Context, app T, owner desired.Owner, o *observed, plan rollout.Plan, done *outcome) {
	for _, l := range plan.Retain {
		// One that is in the spec, and refused to have its data, may still run with it.
		if !slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.WorkloadID == l.Workload() }) {
			if _, err := r.endOrphans(ctx, app, owner, l.Kept); err != nil {
				done.errors[l.ID] = err
				continue
			}
		}
		if err := r.applier.Label(ctx, owner, l.Kept, l.Want); err != nil {
			done.errors[l.ID] = err
		}
	}
	done.changes = append(done.changes, keptNow(plan.Retain, done.errors, o.retained)...)
	for _, k := range plan.Purge {
		if err := r.stillSo(ctx, app); err != nil {
			done.errors[k.ID] = err
			return
		}
		_, err := r.endOrphans(ctx, app, owner, k)
		purged := false
		if err == nil {
			purged, err = r.purge(ctx, owner, k)
		}
		switch {
		case err != nil:
			done.errors[k.ID] = err
		case purged:
			done.changes = append(done.changes, change{k.Component(), k.ID, removedChange})
		}
	}
}

// keptNow is all that is kept of the components whose last piece was just marked. It is told at
// once: a second event about the same component is counted, and nobody would read of its claim.
func keptNow(marked []rollout.Labels, failed map[desired.ID]error, retained []desired.Kept) []change {
	some, open := map[string]bool{}, map[string]bool{}
	for _, l := range marked {
		some[l.Component()] = true
		if failed[l.ID] != nil {
			open[l.Component()] = true
		}
	}
	var out []change
	for _, k := range retained {
		if some[k.Component()] && !open[k.Component()] {
			out = append(out, change{k.Component(), k.ID, retainedChange})
		}
	}
	return out
}

// purge deletes what is kept, if nobody uses it: its set is gone, and no pod has it. What
// is in use is looked at again when that changes.
func (r *reconciler[T]) purge(ctx context.Context, owner desired.Owner, k desired.Kept) (bool, error) {
	if k.GetDeletionTimestamp() != nil {
		return false, nil
	}
	user, err := r.userOf(ctx, owner, k)
	if err != nil || user != "" {
		return false, err
	}
	return true, r.applier.Purge(ctx, owner, k)
}

// setOf names the set that has something that is kept, or nothing.
func (r *reconciler[T]) setOf(ctx context.Context, owner desired.Owner, k desired.Kept) (string, error) {
	set := &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(desired.KindStatefulSet)
	err := r.live.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: k.Set()}, set)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("get StatefulSet %s/%s: %w", owner.Namespace, k.Set(), err)
	}
	return "StatefulSet " + set.Name, nil
}

// userOf names what uses something that is kept, or nothing.
func (r *reconciler[T]) userOf(ctx context.Context, owner desired.Owner, k desired.Kept) (string, error) {
	if set, err := r.setOf(ctx, owner, k); err != nil || set != "" {
		return set, err
	}
	var pods corev1.PodList
	if err := r.live.List(ctx, &pods, client.InNamespace(owner.Namespace)); err != nil {
		return "", fmt.Errorf("list pods of namespace %s: %w", owner.Namespace, err)
	}
	for i := range pods.Items {
		if k.UsedBy(&pods.Items[i]) {
			return "Pod " + pods.Items[i].Name, nil
		}
	}
	return "", nil
}

// settle does what has to be done about the data of an application that is deleted, once
// all that used it is gone. It is over when nothing is left to say or to delete.
func (r *reconciler[T]) settle(ctx context.Context, app T, owner desired.Owner, done *outcome) (over bool) {
	specs := r.kind.Components(app)
	kept, err := r.kept(ctx, owner, specs)
	if err == nil && !rollout.HasData(owner, desired.For(owner, specs, desired.Known{Kept: kept}), kept) {
		return true
	}
	if err == nil {
		kept, err = r.keptLive(ctx, owner, specs)
	}
	if err != nil {
		done.failed = err
		return false
	}
	over = true
	for _, s := range rollout.Settle(owner, desired.For(owner, specs, desired.Known{Kept: kept}), kept, r.deletesData(app)) {
		ended, err := r.endOrphans(ctx, app, owner, s.Kept)
		switch {
		case err != nil:
			done.errors[s.ID], over = err, false
		case ended:
			over = false // what becomes of the data is said when nobody uses it
		case s.Purge:
			user, err := r.userOf(ctx, owner, s.Kept)
			if err == nil && user != "" {
				continue // given away, and its data with it
			}
			over = false
			if err == nil {
				err = r.stillSo(ctx, app)
			}
			if err == nil && s.GetDeletionTimestamp() == nil {
				err = r.applier.Purge(ctx, owner, s.Kept)
			}
			if err != nil {
				done.errors[s.ID] = err
			}
		default:
			if err := r.applier.Label(ctx, owner, s.Kept, s.Want); err != nil {
				done.errors[s.ID], over = err, false
			}
		}
	}
	return over
}

// deletesData says whether data goes with what it belongs to.
func (r *reconciler[T]) deletesData(app T) bool {
	return r.kind.DeletionPolicy != nil && r.kind.DeletionPolicy(app) == appsapi.DeletionDelete
}

// isMissing says whether something to copy from is missing.
func isMissing(err error) bool {
	var missing *own.MissingSource
	return errors.As(err, &missing)
}

// isLost says whether a password is gone that data is opened with.
func isLost(err error) bool {
	var lost *own.LostCredential
	return errors.As(err, &lost)
}
