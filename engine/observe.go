package engine

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// observed is everything that a pass over an object decides on. It is read once; nothing
// later reads again.
type observed struct {
	components []desired.Component
	seen       rollout.Seen
	spec       history.Spec
	history    history.Plan
	// strays are revisions that lost their reference to the application.
	strays []*appsv1.ControllerRevision
	// keepJobs are the jobs of all remembered specs.
	keepJobs map[string]bool
}

// observe reads what is ours, what is referred to, and what is in the way.
func (r *reconciler[T]) observe(ctx context.Context, app T, owner desired.Owner) (observed, error) {
	specs := r.kind.Components(app)
	o := observed{components: desired.For(owner, specs, nil)} // also a failed pass has components to report about
	seen, err := r.ours(ctx, owner)
	if err != nil {
		return o, err
	}
	known, err := r.contents.of(ctx, client.ObjectKeyFromObject(app), specs, seen)
	if err != nil {
		return o, err
	}
	if len(known) > 0 {
		o.components = desired.For(owner, specs, known)
	}
	for _, c := range o.components {
		for _, child := range c.Children {
			if err := r.see(ctx, owner, child.ID, seen); err != nil {
				return o, err
			}
		}
	}
	o.seen = seen
	return o, r.recall(ctx, app, owner, &o)
}

// ours reads every child that has the UID of the owner, also those that were just written:
// what needs a child must not be overlooked when that is deleted.
func (r *reconciler[T]) ours(ctx context.Context, owner desired.Owner) (rollout.Seen, error) {
	seen := rollout.Seen{}
	for _, kind := range children {
		if kind.kind == desired.KindRevision {
			continue
		}
		names, err := r.namesOf(ctx, owner, kind)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if err := r.see(ctx, owner, desired.ID{Kind: kind.kind, Name: name}, seen); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range r.applier.Unseen(owner) {
		if id.Kind == desired.KindRevision {
			continue
		}
		if err := r.see(ctx, owner, id, seen); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// see adds a child as we know it best.
func (r *reconciler[T]) see(ctx context.Context, owner desired.Owner, id desired.ID, seen rollout.Seen) error {
	if seen[id] != nil {
		return nil
	}
	obj, err := r.applier.Observe(ctx, owner, id)
	if err != nil {
		return err
	}
	if obj != nil {
		seen[id] = obj
	}
	return nil
}

func (r *reconciler[T]) namesOf(ctx context.Context, owner desired.Owner, kind childKind) ([]string, error) {
	list := kind.list()
	if err := r.client.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{indexOwner: string(owner.UID)}); err != nil {
		return nil, fmt.Errorf("list %ss of %s %s/%s: %w", kind.kind.Kind, owner.Kind, owner.Namespace, owner.Name, err)
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	return names, err
}

// recall reads the specs that are remembered.
func (r *reconciler[T]) recall(ctx context.Context, app T, owner desired.Owner, o *observed) error {
	o.keepJobs = map[string]bool{}
	if r.kind.History == nil {
		return nil
	}
	spec, limit := r.kind.History(app)
	if limit == 0 {
		limit = defaultHistory
	}
	var err error
	if o.spec, err = history.Of(spec); err != nil {
		return err
	}
	current := desired.RevisionName(owner, o.spec.Hash)
	names, err := r.namesOf(ctx, owner, revisionKind)
	if err != nil {
		return err
	}
	seen := rollout.Seen{}
	for _, name := range append(names, current) {
		if err := r.see(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: name}, seen); err != nil {
			return err
		}
	}
	var revisions []*appsv1.ControllerRevision
	for _, revision := range seen {
		ref := metav1.GetControllerOfNoCopy(revision)
		switch {
		case ref != nil && ref.UID == owner.UID:
		case ref == nil && revision.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID):
			o.strays = append(o.strays, revision.(*appsv1.ControllerRevision))
		default:
			continue // somebody else's
		}
		revisions = append(revisions, revision.(*appsv1.ControllerRevision))
	}
	o.history = history.For(current, revisions, int(limit))
	forgotten := map[string]bool{}
	for _, revision := range o.history.Forget {
		forgotten[revision.Name] = true
	}
	for _, revision := range revisions {
		for _, spec := range desired.JobSpecs(revision) {
			if !forgotten[revision.Name] {
				o.keepJobs[spec] = true
			}
		}
	}
	return nil
}

// pods lists the pods of a component.
func (r *reconciler[T]) pods(ctx context.Context, namespace string, c desired.Component) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{indexWorkload: c.WorkloadID})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s: %w", c.Workload.Kind.Kind, c.Workload.Name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
