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
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// observed is everything that a pass over an object decides on. It is read once; nothing
// later reads again.
type observed struct {
	components      []desired.Component
	children        rollout.Observed
	retainedObjects []desired.RetainedObject
	// retainedVerified is set once the API server has said that this is all.
	retainedVerified bool
	// unusedRetained is what of it no component has, and what is not about to be deleted.
	unusedRetained []desired.RetainedObject
	spec           history.Spec
	history        history.Plan
	// toReclaim are revisions, and jobs that have run for one of them, that lost what says
	// whose they are. Nothing is applied to them, so nothing else puts it back.
	toReclaim []client.Object
	// missingRefs are what volumes of each component show and what does not exist.
	missingRefs map[string][]desired.Ref
	// retainedJobs are the jobs of all remembered specs.
	retainedJobs map[string]bool
	// databaseHealth are what servers say, by component, and again is when one is asked again.
	databaseHealth map[string]health.Result
	requeueAt      time.Time
	// transient is set while something is found that is about to be over, so that nothing is told.
	transient bool
	// bindingVersions are the versions of the Secrets that tell how to get into databases.
	bindingVersions map[string]string
	// serverVersions are those of the servers of databases that have let us in, by component.
	serverVersions map[string]string
	// startedImages are the images of those that have been let near the data, by component.
	startedImages map[string]string
}

// requeueNoLaterThan notes a time at which to look again.
func (o *observed) requeueNoLaterThan(t time.Time) {
	if !t.IsZero() && (o.requeueAt.IsZero() || t.Before(o.requeueAt)) {
		o.requeueAt = t
	}
}

// markTransient notes that what is found now is about to be over; if it is not by then, it is told.
func (o *observed) markTransient(until, now time.Time) {
	if now.Before(until) {
		o.transient = true
		o.requeueNoLaterThan(until)
	}
}

// observe reads what is ours, what is referred to, and what is in the way.
func (r *reconciler[T]) observe(ctx context.Context, app T, owner desired.Owner) (observed, error) {
	specs := r.kind.Components(app)
	o := observed{components: desired.Build(owner, specs, desired.ClusterState{})} // also a failed pass has components to report about
	children, err := r.listChildren(ctx, owner)
	if err != nil {
		return o, err
	}
	if o.retainedObjects, err = r.listRetained(ctx, owner, specs); err != nil {
		return o, err
	}
	specs = desired.ResolveBindings(owner, specs, o.retainedObjects)
	// Before what they say is read: who knows what was said then may not know what is said since.
	bindingNames := desired.BindingSecretNames(owner, specs, o.retainedObjects)
	o.bindingVersions = r.secretVersions(ctx, owner, bindingNames)
	ownSecrets, sourceSecrets := desired.CredentialSecrets(owner, specs, o.retainedObjects)
	configContents, err := r.configRefs.HashesFor(ctx, client.ObjectKeyFromObject(app), specs, children, slices.Concat(ownSecrets, sourceSecrets, desired.SecretRefs(bindingNames)))
	if err != nil {
		return o, err
	}
	if len(o.retainedObjects) > 0 {
		o.components = desired.Build(owner, specs, desired.ClusterState{Retained: o.retainedObjects})
	}
	runningPods, err := r.countPodsWithoutStatefulSet(ctx, owner, o.components, children)
	if err != nil {
		return o, err
	}
	if len(configContents)+len(runningPods) > 0 { // most have neither, and are not made twice
		o.components = desired.Build(owner, specs, desired.ClusterState{RefStates: configContents, Retained: o.retainedObjects, OrphanedReplicas: runningPods})
	}
	o.unusedRetained = slices.DeleteFunc(desired.UnusedRetained(owner, o.components, o.retainedObjects), func(k desired.RetainedObject) bool { return r.deletesData(app) && !k.MarkedRetained() })
	o.missingRefs = map[string][]desired.Ref{}
	for _, c := range specs {
		o.missingRefs[c.Name] = desired.MissingRefs(c, configContents)
	}
	for _, c := range o.components {
		for _, child := range c.Children {
			if err := r.observeChild(ctx, owner, child.ID, children); err != nil {
				return o, err
			}
		}
	}
	o.children = children
	if o.databaseHealth, err = r.probeDatabases(ctx, app, owner, &o); err != nil {
		return o, err
	}
	return o, r.loadRevisions(ctx, app, owner, &o)
}

// countPodsWithoutStatefulSet counts the pods of components that have no StatefulSet.
func (r *reconciler[T]) countPodsWithoutStatefulSet(ctx context.Context, owner desired.Owner, components []desired.Component, children rollout.Observed) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, c := range components {
		if c.Data == nil || children[c.Workload] != nil {
			continue
		}
		pods, err := r.listPods(ctx, owner.Namespace, c)
		if err != nil {
			return nil, err
		}
		if n := desired.ReplicasFromPods(pods); n > 0 {
			counts[c.Name] = n
		}
	}
	return counts, nil
}

// component is a component by its name.
func (o *observed) component(name string) desired.Component {
	return o.components[slices.IndexFunc(o.components, func(c desired.Component) bool { return c.Name == name })]
}

// listChildren reads every child that has the UID of the owner, also those that were just written:
// what needs a child must not be overlooked when that is deleted.
func (r *reconciler[T]) listChildren(ctx context.Context, owner desired.Owner) (rollout.Observed, error) {
	found := rollout.Observed{}
	for _, kind := range slices.Concat(managercache.ChildKinds, managercache.OptionalChildKinds) {
		if kind.GVK == desired.KindRevision || !r.optionalKinds.IsReadable(kind.GVK) {
			continue
		}
		names, err := r.childNames(ctx, owner, kind)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if err := r.observeChild(ctx, owner, desired.ID{Kind: kind.GVK, Name: name}, found); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range r.applier.NotYetCached(owner) {
		if id.Kind == desired.KindRevision {
			continue
		}
		if err := r.observeChild(ctx, owner, id, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// observeChild adds a child as we know it best.
func (r *reconciler[T]) observeChild(ctx context.Context, owner desired.Owner, id desired.ID, found rollout.Observed) error {
	if found[id] != nil || !r.optionalKinds.IsReadable(id.Kind) {
		return nil
	}
	obj, err := r.applier.Observe(ctx, owner, id)
	if err != nil {
		return err
	}
	if obj != nil {
		found[id] = obj
	}
	return nil
}

func (r *reconciler[T]) childNames(ctx context.Context, owner desired.Owner, kind managercache.ChildKind) ([]string, error) {
	list := kind.NewList()
	if err := r.cache.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{managercache.IndexOwner: string(owner.UID)}); err != nil {
		return nil, fmt.Errorf("list %ss of %s %s/%s: %w", kind.GVK.Kind, owner.Kind, owner.Namespace, owner.Name, err)
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	return names, err
}

// loadRevisions reads the specs that are remembered.
func (r *reconciler[T]) loadRevisions(ctx context.Context, app T, owner desired.Owner, o *observed) error {
	o.retainedJobs = map[string]bool{}
	if r.kind.History == nil {
		return nil
	}
	spec, limit := r.kind.History(app)
	var err error
	if o.spec, err = history.Encode(spec); err != nil {
		return err
	}
	current := desired.RevisionName(owner, o.spec.Hash)
	names, err := r.childNames(ctx, owner, managercache.RevisionKind)
	if err != nil {
		return err
	}
	found := rollout.Observed{}
	for _, name := range append(names, current) {
		if err := r.observeChild(ctx, owner, desired.ID{Kind: desired.KindRevision, Name: name}, found); err != nil {
			return err
		}
	}
	var revisions []*appsv1.ControllerRevision
	for _, revision := range found {
		if ownership.BelongsTo(owner, revision) {
			o.addReclaim(owner, revision)
			revisions = append(revisions, revision.(*appsv1.ControllerRevision))
		}
	}
	o.history = history.NewPlan(current, revisions, int(limit))
	o.retainedJobs = rollout.ProtectedJobSpecs(revisions, o.history.Prune)
	for id, job := range o.children {
		if id.Kind == desired.KindJob && o.retainedJobs[job.GetAnnotations()[appsapi.AnnotationJobSpec]] && !o.isComponentWorkload(id) && ownership.BelongsTo(owner, job) {
			o.addReclaim(owner, job)
		}
	}
	return nil
}

// addReclaim notes an object of ours that lost what says so. One that goes may go as it is.
func (o *observed) addReclaim(owner desired.Owner, obj rollout.Object) {
	if !ownership.HasOwnerMetadata(owner, obj.(client.Object)) && obj.GetDeletionTimestamp() == nil {
		o.toReclaim = append(o.toReclaim, obj.(client.Object))
	}
}

// isComponentWorkload says whether a child is one of a component.
func (o *observed) isComponentWorkload(id desired.ID) bool {
	return slices.ContainsFunc(o.components, func(c desired.Component) bool { return c.Workload == id })
}

// listPods lists the pods of a component.
func (r *reconciler[T]) listPods(ctx context.Context, namespace string, c desired.Component) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{managercache.IndexWorkload: c.WorkloadID})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s %s: %w", c.Workload.Kind.Kind, c.Workload.Name, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}
