package engine

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// verifyAgainstAPIServer asks the API server once after a start, for an application that somebody has
// worked on before and that is not at rest, whether what was read of it is still so. A cache
// may begin with a list of the past, each kind with another one. Then an earlier spec would
// be applied over the current one, with all preconditions met, or pods of an earlier spec
// would count as those of the current one. From then on a cache only goes forward.
func (r *reconciler[T]) verifyAgainstAPIServer(ctx context.Context, app T, owner desired.Owner, o *observed) error {
	// Of what is new nothing is there to be mistaken about.
	isNew := app.ApplicationStatus().ObservedGeneration == 0 && len(o.children) == 0
	verified := r.ownWrites.isVerified(app.GetUID())
	if isNew || verified || readyAtGeneration(app) && !r.hasPendingWrites(owner, o) {
		return nil
	}
	// All at once: somebody who has just edited it waits.
	var group errgroup.Group
	group.SetLimit(maxConcurrentWrites)
	group.Go(func() error { return r.verifyGeneration(ctx, r.gvk.Kind, app, r.kind.New()) })
	for _, c := range o.components {
		if cached, ok := o.children[c.Workload].(client.Object); ok {
			live := &metav1.PartialObjectMetadata{}
			live.SetGroupVersionKind(c.Workload.Kind)
			group.Go(func() error { return r.verifyGeneration(ctx, c.Workload.Kind.Kind, cached, live) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	r.ownWrites.markVerified(app.GetUID())
	return nil
}

// verifyGeneration reads an object anew. Only the generation has to be the same: a status may change
// faster than anybody can look.
func (r *reconciler[T]) verifyGeneration(ctx context.Context, kind string, cached, live client.Object) error {
	if err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(cached), live); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get %s %s after a start: %w", kind, klog.KObj(cached), err)
	}
	if live.GetUID() != cached.GetUID() || live.GetGeneration() != cached.GetGeneration() {
		return fmt.Errorf("%s %s: %w", kind, klog.KObj(cached), apply.ErrStale)
	}
	return nil
}

// readyAtGeneration says whether the status claims that everything is done.
func readyAtGeneration(app Object) bool {
	ready := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == app.GetGeneration()
}

// hasPendingWrites says whether the spec asks for anything that is not there. What is deleted is
// asked for where it is deleted.
func (r *reconciler[T]) hasPendingWrites(owner desired.Owner, o *observed) bool {
	if h := o.history; r.kind.History != nil && (h.Current == nil || h.Current.Revision != h.Number) {
		return true
	}
	for _, c := range o.components {
		for _, child := range c.Children {
			live := o.children[child.ID]
			if live == nil {
				return true
			}
			if r.applier.InSync(owner, child, live.(client.Object)) {
				continue
			}
			config, err := child.RenderReadOnly(live)
			if err != nil || config.Hash() != live.GetAnnotations()[appsapi.AnnotationAppliedHash] {
				return true
			}
		}
	}
	return false
}
