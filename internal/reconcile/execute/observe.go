package execute

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// observe reads the children of an application, its data, and the objects that its pods refer to.
func (e *Executor) observe(ctx context.Context, s *Scope) error {
	specs, err := e.components(ctx, s.App)
	if s.SpecErr = err; len(specs) == 0 { // the spec is invalid
		return nil
	}
	s.Components = desired.Build(s.Owner, specs, desired.ClusterState{}) // the status of a failed reconcile needs the components, too
	if !e.declaresTypes(s) {
		return nil
	}
	children, err := e.listChildren(ctx, s.Owner)
	if err != nil {
		return err
	}
	if e.ChildKinds.Data {
		if s.Retained, err = e.dataReader().List(ctx, s.Owner, specs); err != nil {
			return err
		}
	}
	specs = desired.ResolveBindings(s.Owner, specs, s.Retained)
	// The versions are read before the content. If a Secret changes between the two reads, the
	// recorded version is older than the content that the pods use, never newer.
	bindings := desired.BindingSecretNames(s.Owner, specs, s.Retained)
	s.BindingVersions = SecretVersions(ctx, e.Cache, s.Owner.Namespace, bindings)
	ownSecrets, sourceSecrets := desired.CredentialSecrets(s.Owner, specs, s.Retained)
	refs, err := e.ConfigRefs.HashesFor(ctx, client.ObjectKeyFromObject(s.App), specs, children, slices.Concat(ownSecrets, sourceSecrets, desired.SecretRefs(bindings)))
	if err != nil {
		return err
	}
	if len(s.Retained) > 0 {
		s.Components = desired.Build(s.Owner, specs, desired.ClusterState{Retained: s.Retained})
	}
	orphanedReplicas, err := e.countPodsWithoutStatefulSet(ctx, s, children)
	if err != nil {
		return err
	}
	if len(refs)+len(orphanedReplicas) > 0 { // most applications have no references and no orphaned pods: their components are built once
		s.Components = desired.Build(s.Owner, specs, desired.ClusterState{RefStates: refs, Retained: s.Retained, OrphanedReplicas: orphanedReplicas})
	}
	s.UnusedRetained = slices.DeleteFunc(desired.UnusedRetained(s.Owner, s.Components, s.Retained),
		func(k desired.RetainedObject) bool { return e.Kind.deletesData(s.App) && !k.MarkedRetained() })
	s.MissingRefs = map[string][]desired.Ref{}
	for _, c := range specs {
		s.MissingRefs[c.Name] = desired.MissingRefs(c, refs)
	}
	for _, c := range s.Components {
		for _, child := range c.Children {
			if err := e.observeChild(ctx, s.Owner, child.ID, children); err != nil {
				return err
			}
		}
	}
	s.Children = children
	if err := e.Databases.Observe(ctx, s); err != nil {
		return err
	}
	return e.loadRevisions(ctx, s)
}

// mapSpec returns the components of an application. The mapping of another operator can panic: then every reconcile
// would, and the application could not be deleted.
func (e *Executor) mapSpec(ctx context.Context, app Application) (specs []desired.ExpandedComponent, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.FromContext(ctx).Error(nil, "Panic in the mapping of the spec to components", "panic", p, "stack", string(debug.Stack()))
			err = &rollout.InvalidSpec{Message: fmt.Sprintf(
				"The operator of %s cannot map the spec to components: %v; correct the spec, or report the log of the operator", e.Kind.GVK.Kind, p)}
		}
	}()
	return e.Kind.Components(app), nil
}

// components returns the components of an application. A kind of another operator can return components that cannot work:
// the error names them.
func (e *Executor) components(ctx context.Context, app Application) ([]desired.ExpandedComponent, error) {
	specs, err := e.mapSpec(ctx, app)
	if err != nil {
		return nil, err
	}
	if len(specs) == 0 {
		return nil, &rollout.InvalidSpec{Message: fmt.Sprintf("The spec of %s %s has no components; add one", e.Kind.GVK.Kind, app.GetName())}
	}
	var problems []string
	for _, c := range specs {
		if c.InvalidType != "" {
			problems = append(problems, c.InvalidType)
		}
	}
	if len(problems) > 0 {
		return nil, &rollout.InvalidSpec{Message: strings.Join(problems, ". ")}
	}
	return specs, nil
}

// countPodsWithoutStatefulSet counts the pods of stateful components that have no StatefulSet.
func (e *Executor) countPodsWithoutStatefulSet(ctx context.Context, s *Scope, children rollout.Observed) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, c := range s.Components {
		if c.Data == nil || children[c.Workload] != nil {
			continue
		}
		pods, err := ListPods(ctx, e.Cache, s.Owner.Namespace, c.WorkloadID)
		if err != nil {
			return nil, err
		}
		if n := desired.ReplicasFromPods(pods); n > 0 {
			counts[c.Name] = n
		}
	}
	return counts, nil
}

// listChildren reads every child that has the UID of the owner, including writes that the cache does
// not show yet: a dependent must not be overlooked when its dependency is deleted.
func (e *Executor) listChildren(ctx context.Context, owner desired.Owner) (rollout.Observed, error) {
	found := rollout.Observed{}
	for _, kinds := range [][]childkind.Kind{e.ChildKinds.Required, e.ChildKinds.Optional} {
		for _, kind := range kinds {
			if err := e.listChildrenOfKind(ctx, owner, kind, found); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range e.Writer.NotYetCached(owner) {
		if id.Kind == desired.KindRevision {
			continue
		}
		if err := e.observeChild(ctx, owner, id, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (e *Executor) listChildrenOfKind(ctx context.Context, owner desired.Owner, kind childkind.Kind, found rollout.Observed) error {
	if kind.GVK == desired.KindRevision || !e.OptionalKinds.IsReadable(kind.GVK) {
		return nil
	}
	names, err := e.childNames(ctx, owner, kind)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := e.observeChild(ctx, owner, desired.ID{Kind: kind.GVK, Name: name}, found); err != nil {
			return err
		}
	}
	return nil
}

// observeChild adds a child to found if it exists.
func (e *Executor) observeChild(ctx context.Context, owner desired.Owner, id desired.ID, found rollout.Observed) error {
	if found[id] != nil || !e.OptionalKinds.IsReadable(id.Kind) {
		return nil
	}
	obj, err := e.Writer.Observe(ctx, owner, id)
	if err != nil {
		return err
	}
	if obj != nil {
		found[id] = obj
	}
	return nil
}

func (e *Executor) childNames(ctx context.Context, owner desired.Owner, kind childkind.Kind) ([]string, error) {
	list := kind.NewList()
	if err := e.Cache.List(ctx, list, client.InNamespace(owner.Namespace), client.MatchingFields{childkind.IndexOwner: string(owner.UID)}); err != nil {
		return nil, fmt.Errorf("list %ss of %s %s/%s: %w", kind.GVK.Kind, owner.Kind, owner.Namespace, owner.Name, err)
	}
	var names []string
	err := meta.EachListItem(list, func(item runtime.Object) error {
		names = append(names, item.(client.Object).GetName())
		return nil
	})
	return names, err
}

// ListPods lists the pods of a workload.
func ListPods(ctx context.Context, cache client.Reader, namespace, workloadID string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := cache.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{childkind.IndexWorkload: workloadID})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s in namespace %s: %w", workloadID, namespace, err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// SecretVersions returns the resourceVersions of Secrets in the cache. A Secret that cannot be read
// has an empty version: the code that uses the Secret reports the error.
func SecretVersions(ctx context.Context, cache client.Reader, namespace string, names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		secret := childkind.NewConfigRefMetadata(desired.RefSecret)
		_ = cache.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, secret)
		out[name] = secret.ResourceVersion
	}
	return out
}

// declaresTypes reports whether the kind declares the types of all components: children of
// undeclared types are not watched.
func (e *Executor) declaresTypes(s *Scope) bool {
	for _, c := range s.Components {
		if !e.ChildKinds.Has(c.Type) {
			s.SpecErr = fmt.Errorf(
				"component %q has type %s, which kind %s does not support; its developer must add the type to Types of the kind",
				c.Name, c.Type, e.Kind.GVK.Kind)
			return false
		}
	}
	return true
}
