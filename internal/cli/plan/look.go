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
	"github.com/holdfast-dev/holdfast/internal/own"
	"github.com/holdfast-dev/holdfast/internal/rehearsal"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// childKinds are the kinds that the children of an application may have.
var childKinds = []schema.GroupVersionKind{
	desired.KindDeployment, desired.KindStatefulSet, desired.KindService, desired.KindJob, desired.KindCronJob,
	desired.KindConfigMap, desired.KindAutoscaler, desired.KindBudget, desired.KindIngress, desired.KindRoute, desired.KindRevision,
}

// abreast is how many questions are asked at the same time.
const abreast = 8

// looker reads what the operator would decide on.
type looker struct {
	client client.Client
	// app is the application as it would be stored, and live as it is, nil if it is not.
	app, live application.Application
	owner     desired.Owner
	specs     []appsapi.Component

	mu    sync.Mutex
	notes []string
	// unknown are the kinds that the cluster does not have.
	unknown map[schema.GroupVersionKind]bool
}

func (l *looker) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// look reads everything.
func (l *looker) look(ctx context.Context) (rehearsal.Input, error) {
	in := rehearsal.Input{Owner: l.owner, Specs: l.specs, Seen: rollout.Seen{}, Others: rollout.Seen{}, DeleteData: deletesData(l.app)}
	var err error
	if in.Spec, in.Limit, err = remembered(l.app); err != nil {
		return in, err
	}
	labelled, err := l.labelled(ctx)
	if err != nil {
		return in, err
	}
	for id, obj := range labelled {
		if !isOf(l.owner, obj) {
			continue
		}
		if revision, ok := obj.(*appsv1.ControllerRevision); ok {
			if own.Ours(l.owner, revision) {
				in.Revisions = append(in.Revisions, revision)
			}
			continue
		}
		in.Seen[id] = obj
	}
	if in.Kept, err = l.kept(ctx); err != nil {
		return in, err
	}
	l.specs = desired.Bound(l.owner, l.specs, in.Kept)
	in.Specs = l.specs
	if in.Contents, err = l.contents(ctx, in.Seen); err != nil {
		return in, err
	}
	components := desired.For(l.owner, l.specs, desired.Known{Contents: in.Contents, Kept: in.Kept})
	if in.Running, err = l.running(ctx, components, in.Seen); err != nil {
		return in, err
	}
	return in, l.others(ctx, components, labelled, &in)
}

// isOf says whether an object is a child of an application, by its reference or its label,
// either of which somebody may have taken away.
func isOf(owner desired.Owner, obj metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return ref != nil && ref.UID == owner.UID || obj.GetLabels()[appsapi.LabelOwnerUID] == string(owner.UID)
}

// labelled are all objects of the namespace that say that they are Holdfast's.
func (l *looker) labelled(ctx context.Context) (rollout.Seen, error) {
	var mu sync.Mutex
	seen := rollout.Seen{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(abreast)
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
				l.unknown[kind] = true
				return nil
			}
			if err != nil {
				return fmt.Errorf("list %ss of namespace %s: %w", kind.Kind, l.owner.Namespace, cli.Explained(err))
			}
			mu.Lock()
			defer mu.Unlock()
			return meta.EachListItem(list, func(item runtime.Object) error {
				obj := item.(rollout.Object)
				seen[desired.ID{Kind: kind, Name: obj.GetName()}] = obj
				return nil
			})
		})
	}
	return seen, group.Wait()
}

func (l *looker) newList(kind schema.GroupVersionKind) (client.ObjectList, error) {
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

// others finds what has the name of a child and is not the application's.
func (l *looker) others(ctx context.Context, components []desired.Component, labelled rollout.Seen, in *rehearsal.Input) error {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(abreast)
	for _, c := range components {
		for _, child := range c.Children {
			if in.Seen[child.ID] != nil {
				continue
			}
			if there := labelled[child.ID]; there != nil {
				in.Seen[child.ID] = there // of another application
				continue
			}
			group.Go(func() error {
				obj := newObject(l.client, l.owner.Namespace, child.ID)
				err := l.client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
				if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
					return nil
				}
				if err != nil {
					return fmt.Errorf("get %s %s/%s: %w", child.Kind.Kind, l.owner.Namespace, child.Name, cli.Explained(err))
				}
				mu.Lock()
				defer mu.Unlock()
				in.Others[child.ID] = obj
				return nil
			})
		}
	}
	return group.Wait()
}

// running counts the pods of components that have no StatefulSet.
func (l *looker) running(ctx context.Context, components []desired.Component, seen rollout.Seen) (map[string]int32, error) {
	counts := map[string]int32{}
	for _, c := range components {
		if c.Data == nil || seen[c.Workload] != nil {
			continue
		}
		var list corev1.PodList
		if err := l.client.List(ctx, &list, client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelWorkload: c.WorkloadID}); err != nil {
			return nil, fmt.Errorf("list pods of %s %s: %w", c.Workload.Kind.Kind, c.Workload.Name, cli.Explained(err))
		}
		var pods []*corev1.Pod
		for i := range list.Items {
			pods = append(pods, &list.Items[i])
		}
		if n := desired.CountPods(pods); n > 0 {
			counts[c.Name] = n
		}
	}
	return counts, nil
}

// kept reads the claims and credentials that may be the application's.
func (l *looker) kept(ctx context.Context) ([]desired.Kept, error) {
	if !slices.ContainsFunc(l.specs, func(c appsapi.Component) bool { return c.Stateful != nil }) && l.live == nil {
		return nil, nil
	}
	which := []client.ListOption{client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}}
	var claims corev1.PersistentVolumeClaimList
	if err := l.client.List(ctx, &claims, which...); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", l.owner.Namespace, cli.Explained(err))
	}
	var all []desired.Kept
	for i := range claims.Items {
		c := &claims.Items[i]
		all = append(all, desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: c.Name}, Object: c, Claim: c})
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := l.client.List(ctx, secrets, which...)
	switch {
	case apierrors.IsForbidden(err):
		return l.believed(desired.Concerning(l.owner, l.specs, all)), nil
	case err != nil:
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", l.owner.Namespace, cli.Explained(err))
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Labels[appsapi.LabelWorkload] != "" {
			all = append(all, desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: s.Name}, Object: s})
		}
	}
	return l.unlabelled(ctx, desired.Concerning(l.owner, l.specs, all))
}

// unlabelled adds the Secrets that have the name of credentials and do not say whose they are.
func (l *looker) unlabelled(ctx context.Context, kept []desired.Kept) ([]desired.Kept, error) {
	secrets, _ := desired.Secrets(l.owner, l.specs, kept)
	for _, ref := range secrets {
		id := desired.ID{Kind: desired.KindSecret, Name: ref.Name}
		if slices.ContainsFunc(kept, func(k desired.Kept) bool { return k.ID == id }) {
			continue
		}
		secret, err := l.metadata(ctx, desired.RefSecret, ref.Name)
		if err != nil {
			return nil, err
		}
		if secret != nil && secret.Labels[appsapi.LabelWorkload] == "" {
			kept = append(kept, desired.Kept{ID: id, Object: secret})
		}
	}
	return desired.InOrder(kept), nil
}

// believed takes the credentials of what has data for granted, for who may not see Secrets.
func (l *looker) believed(kept []desired.Kept) []desired.Kept {
	secrets, _ := desired.Secrets(l.owner, l.specs, kept)
	components := desired.For(l.owner, l.specs, desired.Known{Kept: kept})
	for _, c := range components {
		if c.Data == nil || !c.Data.HasClaims() || !slices.ContainsFunc(secrets, func(r desired.Ref) bool { return r.Name == c.Data.Secret }) {
			continue
		}
		l.note("You may not list Secrets: whether Secret %s with the credentials of component %q exists is not known; it is taken for granted.", c.Data.Secret, c.Name)
		kept = append(kept, desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}, Object: &metav1.PartialObjectMetadata{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.owner.Namespace, Name: c.Data.Secret, Labels: maps.Clone(desired.KeptLabels(l.owner, c))}}})
	}
	return desired.InOrder(kept)
}

// metadata reads what a ConfigMap or Secret says about itself; nil if there is none.
func (l *looker) metadata(ctx context.Context, kind, name string) (*metav1.PartialObjectMetadata, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	err := l.client.Get(ctx, client.ObjectKey{Namespace: l.owner.Namespace, Name: name}, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", kind, l.owner.Namespace, name, cli.Explained(err))
	}
	return m, nil
}
