package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// childKinds are the kinds that the children of an application may have.
var childKinds = []schema.GroupVersionKind{
	desired.KindDeployment, desired.KindStatefulSet, desired.KindService, desired.KindJob, desired.KindCronJob,
	desired.KindConfigMap, desired.KindAutoscaler, desired.KindBudget, desired.KindIngress, desired.KindRoute, desired.KindRevision,
}

// maxConcurrentReads is how many questions are asked at the same time.
const maxConcurrentReads = 8

// observer reads what the operator would decide on.
type observer struct {
	client client.Client
	// app is the application as it would be stored, and live as it is, nil if it is not.
	app, live application.Application
	owner     desired.Owner
	specs     []appsapi.Component

	mu    sync.Mutex
	notes []string
	// missingKinds are the kinds that the cluster does not have.
	missingKinds map[schema.GroupVersionKind]bool
}

func (l *observer) addNote(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// observe reads everything.
func (l *observer) observe(ctx context.Context) (simulate.Input, error) {
	in := simulate.Input{Owner: l.owner, ComponentSpecs: l.specs, Observed: rollout.Observed{}, Unowned: rollout.Observed{}, DeleteData: deletesData(l.app)}
	var err error
	if in.Spec, in.RevisionLimit, err = revisionSpec(l.app); err != nil {
		return in, err
	}
	managed, err := l.listManaged(ctx)
	if err != nil {
		return in, err
	}
	for id, obj := range managed {
		if !isChildOf(l.owner, obj) {
			continue
		}
		if revision, ok := obj.(*appsv1.ControllerRevision); ok {
			if ownership.BelongsTo(l.owner, revision) {
				in.Revisions = append(in.Revisions, revision)
			}
			continue
		}
		in.Observed[id] = obj
	}
	if in.Retained, err = l.listRetained(ctx); err != nil {
		return in, err
	}
	l.specs = desired.ResolveBindings(l.owner, l.specs, in.Retained)
	in.ComponentSpecs = l.specs
	if in.Contents, err = l.configHashes(ctx, in.Observed); err != nil {
		return in, err
	}
	components := desired.Build(l.owner, l.specs, desired.ClusterState{RefStates: in.Contents, Retained: in.Retained})
	if in.RunningPods, err = l.countRunningPods(ctx, components, in.Observed); err != nil {
		return in, err
	}
	return in, l.findNameConflicts(ctx, components, managed, &in)
}

// isChildOf says whether an object is a child of an application, by its reference or its label,
// either of which somebody may have taken away.
func isChildOf(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID || obj.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID)
}

// listManaged are all objects of the namespace that say that they are Holdfast's.
func (l *observer) listManaged(ctx context.Context) (rollout.Observed, error) {
	var mu sync.Mutex
	observed := rollout.Observed{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReads)
	for _, kind := range childKinds {
		group.Go(func() error {
			list, err := l.newList(kind)
			if err != nil {
				return err
			}
			err = l.client.List(ctx, list, client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy})
			if kind == desired.KindRoute && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
				mu.Lock()
				defer mu.Unlock()
				l.missingKinds[kind] = true
				return nil
			}
			if err != nil {
				return fmt.Errorf("list %ss of namespace %s: %w", kind.Kind, l.owner.Namespace, cli.WithHint(err))
			}
			mu.Lock()
			defer mu.Unlock()
			return meta.EachListItem(list, func(item runtime.Object) error {
				obj := item.(rollout.Object)
				observed[desired.ID{Kind: kind, Name: obj.GetName()}] = obj
				return nil
			})
		})
	}
	return observed, group.Wait()
}

func (l *observer) newList(kind schema.GroupVersionKind) (client.ObjectList, error) {
	listKind := kind.GroupVersion().WithKind(kind.Kind + "List")
	if !l.client.Scheme().Recognizes(listKind) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(listKind)
		return list, nil
	}
	made, err := l.client.Scheme().New(listKind)
	if err != nil {
		return nil, err
	}
	return made.(client.ObjectList), nil
}

// newObject is an empty object of a kind; of one that is not compiled in, a map.
func newObject(c client.Client, namespace string, id desired.ID) client.Object {
	obj := client.Object(&unstructured.Unstructured{})
	if made, err := c.Scheme().New(id.Kind); err == nil {
		obj = made.(client.Object)
	}
	obj.GetObjectKind().SetGroupVersionKind(id.Kind)
	obj.SetNamespace(namespace)
	obj.SetName(id.Name)
	return obj
}

// findNameConflicts finds what has the name of a child and is not the application's.
func (l *observer) findNameConflicts(ctx context.Context, components []desired.Component, managed rollout.Observed, in *simulate.Input) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReads)
	for _, c := range components {
		for _, child := range c.Children {
			if in.Observed[child.ID] != nil {
				continue
			}
			if existing := managed[child.ID]; existing != nil {
				in.Observed[child.ID] = existing // of another application
				continue
			}
			group.Go(func() error {
				obj := newObject(l.client, l.owner.Namespace, child.ID)
				err := l.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
				if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("get %s %s/%s: %w", child.Kind.Kind, l.owner.Namespace, child.Name, cli.WithHint(err))
				}
				mu.Lock()
				defer mu.Unlock()
				in.Unowned[child.ID] = obj
				return nil
			})
		}
	}
	return group.Wait()
}

// countRunningPods counts the pods of components that have no StatefulSet.
func (l *observer) countRunningPods(ctx context.Context, components []desired.Component, observed rollout.Observed) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, c := range components {
		if c.Data == nil || observed[c.Workload] != nil {
			continue
		}
		var list corev1.PodList
		if err := l.client.List(ctx, &list, client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelWorkload: c.WorkloadID}); err != nil {
			return nil, fmt.Errorf("list pods of %s %s: %w", c.Workload.Kind.Kind, c.Workload.Name, cli.WithHint(err))
		}
		var pods []*corev1.Pod
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
		if n := desired.ReplicasFromPods(pods); n > 0 {
			counts[c.Name] = n
		}
	}
	return counts, nil
}

// listRetained reads the claims and credentials that may be the application's.
func (l *observer) listRetained(ctx context.Context) ([]desired.RetainedObject, error) {
	if !slices.ContainsFunc(l.specs, func(c appsapi.Component) bool { return c.Stateful != nil }) && l.live == nil {
		return nil, nil
	}
	listOptions := []client.ListOption{client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}}
	var claims corev1.PersistentVolumeClaimList
	if err := l.client.List(ctx, &claims, listOptions...); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", l.owner.Namespace, cli.WithHint(err))
	}
	var retained []desired.RetainedObject
	for i := range claims.Items {
		c := &claims.Items[i]
		retained = append(retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: c.Name}, Object: c, Claim: c})
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := l.client.List(ctx, secrets, listOptions...)
	switch {
	case apierrors.IsForbidden(err):
		return l.assumeCredentials(desired.RetainedFor(l.owner, l.specs, retained)), nil
	case err != nil:
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", l.owner.Namespace, cli.WithHint(err))
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Labels[appsapi.LabelWorkload] != "" {
			retained = append(retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindSecret, Name: s.Name}, Object: s})
		}
	}
	return l.addUnlabeledSecrets(ctx, desired.RetainedFor(l.owner, l.specs, retained))
}

// addUnlabeledSecrets adds the Secrets that have the name of credentials and do not say whose they are.
func (l *observer) addUnlabeledSecrets(ctx context.Context, retained []desired.RetainedObject) ([]desired.RetainedObject, error) {
	secrets, _ := desired.CredentialSecrets(l.owner, l.specs, retained)
	for _, ref := range secrets {
		id := desired.ID{Kind: desired.KindSecret, Name: ref.Name}
		if slices.ContainsFunc(retained, func(k desired.RetainedObject) bool { return k.ID == id }) {
			continue
		}
		secret, err := l.getMetadata(ctx, desired.RefSecret, ref.Name)
		if err != nil {
			return nil, err
		}
		if secret != nil && secret.Labels[appsapi.LabelWorkload] == "" {
			retained = append(retained, desired.RetainedObject{ID: id, Object: secret})
		}
	}
	return desired.SortRetained(retained), nil
}

// assumeCredentials takes the credentials of what has data for granted, for who may not see Secrets.
func (l *observer) assumeCredentials(retained []desired.RetainedObject) []desired.RetainedObject {
	secrets, _ := desired.CredentialSecrets(l.owner, l.specs, retained)
	components := desired.Build(l.owner, l.specs, desired.ClusterState{Retained: retained})
	for _, c := range components {
		if c.Data == nil || !c.Data.HasClaims() || !slices.ContainsFunc(secrets, func(r desired.Ref) bool { return r.Name == c.Data.Secret }) {
			continue
		}
		l.addNote("You may not list Secrets: whether Secret %s with the credentials of component %q exists is not known; it is taken for granted.", c.Data.Secret, c.Name)
		retained = append(retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}, Object: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.owner.Namespace, Name: c.Data.Secret, Labels: maps.Clone(desired.RetainedLabels(l.owner, c))}}})
	}
	return desired.SortRetained(retained)
}

// getMetadata reads what a ConfigMap or Secret says about itself; nil if there is none.
func (l *observer) getMetadata(ctx context.Context, kind, name string) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.owner.Namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", kind, l.owner.Namespace, name, cli.WithHint(err))
	}
	return m, nil
}
