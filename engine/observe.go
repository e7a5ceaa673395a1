package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// observed is everything that a pass over an object decides on. It is read once; nothing
// later reads again.
type observed struct {
	components []desired.Component
	seen       rollout.Seen
	kept       []desired.Kept
	// looked is set once the API server has said that this is all.
	looked bool
	// retained is what of it no component has, and what is not about to be deleted.
	retained []desired.Kept
	spec     history.Spec
	history  history.Plan
	// strays are revisions, and jobs that have run for one of them, that lost what says
	// whose they are. Nothing is applied to them, so nothing else puts it back.
	strays []client.Object
	// absent are what volumes of each component show and what does not exist.
	absent map[string][]desired.Ref
	// keepJobs are the jobs of all remembered specs.
	keepJobs map[string]bool
	// databases are what servers say, by component, and again is when one is asked again.
	databases map[string]health.Verdict
	again     time.Time
	// brief is set while something is found that is about to be over, so that nothing is told.
	brief bool
	// bindings are the versions of the Secrets that tell how to get into databases.
	bindings map[string]string
	// serverVersions are those of the servers of databases that have let us in, by component.
	serverVersions map[string]string
	// startedServers are the images of those that have been let near the data, by component.
	startedServers map[string]string
}

// sooner notes a time at which to look again.
func (o *observed) sooner(t time.Time) {
	if !t.IsZero() && (o.again.IsZero() || t.Before(o.again)) {
		o.again = t
	}
}

// passing notes that what is found now is about to be over; if it is not by then, it is told.
func (o *observed) passing(until, now time.Time) {
	if now.Before(until) {
		o.brief = true
		o.sooner(until)
	}
}

// observe reads what is ours, what is referred to, and what is in the way.
func (r *reconciler[T]) observe(ctx context.Context, app T, owner desired.Owner) (observed, error) {
	specs := r.kind.Components(app)
	o := observed{components: desired.For(owner, specs, desired.Known{})} // also a failed pass has components to report about
	seen, err := r.ours(ctx, owner)
	if err != nil {
		return o, err
	}
	if o.kept, err = r.kept(ctx, owner, specs); err != nil {
		return o, err
	}
	specs = desired.Bound(owner, specs, o.kept)
	// Before what they say is read: who knows what was said then may not know what is said since.
	bindings := desired.BindingNames(owner, specs, o.kept)
	o.bindings = r.secretVersions(ctx, owner, bindings)
	own, sources := desired.Secrets(owner, specs, o.kept)
	known, err := r.contents.of(ctx, client.ObjectKeyFromObject(app), specs, seen, slices.Concat(own, sources, desired.SecretRefs(bindings)))
	if err != nil {
		return o, err
	}
	if len(o.kept) > 0 {
		o.components = desired.For(owner, specs, desired.Known{Kept: o.kept})
	}
	running, err := r.running(ctx, owner, o.components, seen)
	if err != nil {
		return o, err
	}
	if len(known)+len(running) > 0 { // most have neither, and are not made twice
		o.components = desired.For(owner, specs, desired.Known{Contents: known, Kept: o.kept, Running: running})
	}
	o.retained = slices.DeleteFunc(desired.Unwanted(owner, o.components, o.kept), func(k desired.Kept) bool { return r.deletesData(app) && !k.Retained() })
	o.absent = map[string][]desired.Ref{}
	for _, c := range specs {
		o.absent[c.Name] = desired.Absent(c, known)
	}
	for _, c := range o.components {
		for _, child := range c.Children {
			if err := r.see(ctx, owner, child.ID, seen); err != nil {
				return o, err
			}
		}
	}
	o.seen = seen
	if o.databases, err = r.consult(ctx, app, owner, &o); err != nil {
		return o, err
	}
	return o, r.recall(ctx, app, owner, &o)
}

// running counts the pods of components that have no StatefulSet.
func (r *reconciler[T]) running(ctx context.Context, owner desired.Owner, components []desired.Component, seen rollout.Seen) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, c := range components {
		if c.Data == nil || seen[c.Workload] != nil {
			continue
		}
		pods, err := r.pods(ctx, owner.Namespace, c)
		if err != nil {
			return nil, err
		}
		if n := desired.CountPods(pods); n > 0 {
			counts[c.Name] = n
		}
	}
	return counts, nil
}

// component is a component by its name.
func (o *observed) component(name string) desired.Component {
	return o.components[slices.IndexFunc(o.components, func(c desired.Component) bool { return c.Name == name })]
}

// ours reads every child that has the UID of the owner, also those that were just written:
// what needs a child must not be overlooked when that is deleted.
func (r *reconciler[T]) ours(ctx context.Context, owner desired.Owner) (rollout.Seen, error) {
	seen := rollout.Seen{}
	for _, kind := range slices.Concat(children, optionalChildren) {
		if kind.kind == desired.KindRevision || !r.optionals.readable(kind.kind) {
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
	if seen[id] != nil || !r.optionals.readable(id.Kind) {
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
	if err := r.cache.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{indexOwner: string(owner.UID)}); err != nil {
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
		if own.Ours(owner, revision) {
			o.stray(owner, revision)
			revisions = append(revisions, revision.(*appsv1.ControllerRevision))
		}
	}
	o.history = history.For(current, revisions, int(limit))
	o.keepJobs = rollout.JobsToKeep(revisions, o.history.Forget)
	for id, job := range o.seen {
		if id.Kind == desired.KindJob && o.keepJobs[job.GetAnnotations()[appsapi.AnnotationJobSpec]] && !o.wants(id) && own.Ours(owner, job) {
			o.stray(owner, job)
		}
	}
	return nil
}

// stray notes an object of ours that lost what says so. One that goes may go as it is.
func (o *observed) stray(owner desired.Owner, obj rollout.Object) {
	if !own.Owned(owner, obj.(client.Object)) && obj.GetDeletionTimestamp() == nil {
		o.strays = append(o.strays, obj.(client.Object))
	}
}

// wants says whether a child is one of a component.
func (o *observed) wants(id desired.ID) bool {
	return slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.Workload == id })
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
