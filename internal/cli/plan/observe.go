package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// maxConcurrentReads limits concurrent requests.
const maxConcurrentReads = 8

// observer reads the state of the cluster that the planner needs.
type observer struct {
	client client.Client
	// app is the application as it would be stored, live the stored one, or nil.
	app, live appkind.Application
	owner     desired.Owner
	specs     []desired.ExpandedComponent

	mu    sync.Mutex
	notes []string
	// recorded are the hashes of referenced objects that children have recorded, hashes those that were
	// computed.
	recorded map[desired.Ref][]desired.RefState
	hashes   map[desired.Ref]*desired.RefState
}

func (l *observer) addNote(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(l.notes, text) {
		l.notes = append(l.notes, text)
	}
}

// observe reads every object that has the managed-by label.
func (l *observer) observe(ctx context.Context) (simulate.Input, error) {
	in := simulate.Input{Kind: executorKind(appkind.Of(l.app)), App: l.app, ConfigRefs: l, Reader: hintReader{l.client}, MissingKinds: map[schema.GroupVersionKind]bool{}}
	if l.live != nil {
		in.Live = l.live
	}
	children, err := l.listChildren(ctx, in.MissingKinds)
	if err != nil {
		return in, err
	}
	l.recorded, l.hashes = map[desired.Ref][]desired.RefState{}, map[desired.Ref]*desired.RefState{}
	for _, child := range children {
		for ref, state := range desired.RecordedRefs(l.owner.Keys, child) {
			l.recorded[ref] = append(l.recorded[ref], state)
		}
	}
	data, err := l.listData(ctx, &in)
	in.Objects = slices.Concat(children, data)
	return in, err
}

// executorKind converts a kind for the executor.
func executorKind(k *appkind.Kind) execute.Kind {
	out := execute.Kind{
		GVK:            k.GroupVersionKind,
		Keys:           k.Keys,
		New:            func() execute.Application { return k.New() },
		Components:     func(app execute.Application) []desired.ExpandedComponent { return k.Components(app) },
		DeletionPolicy: nil,
	}
	if k.DeletionPolicy != nil {
		out.DeletionPolicy = func(app execute.Application) appsapi.DeletionPolicy { return k.DeletionPolicy(app) }
	}
	if k.History != nil {
		out.History = func(app execute.Application) (any, int32) { return k.History.Spec(app) }
	}
	return out
}

// hintReader adds the next step to errors.
type hintReader struct{ client.Reader }

// Get reads an object.
func (r hintReader) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return cli.WithHint(r.Reader.Get(ctx, key, obj, opts...))
}

// List reads a list.
func (r hintReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return cli.WithHint(r.Reader.List(ctx, list, opts...))
}

// listChildren lists the children of all applications in the namespace.
func (l *observer) listChildren(ctx context.Context, missing map[schema.GroupVersionKind]bool) ([]client.Object, error) {
	var mu sync.Mutex
	var children []client.Object
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentReads)
	for _, kind := range slices.Concat(childkind.Required, childkind.Optional) {
		group.Go(func() error {
			list := kind.NewList()
			err := l.client.List(ctx, list, client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy})
			mu.Lock()
			defer mu.Unlock()
			if kind.GVK == desired.KindRoute && (apierrors.IsNotFound(err) || meta.IsNoMatchError(err)) {
				missing[kind.GVK] = true
				return nil
			}
			if err != nil {
				return fmt.Errorf("list %ss of namespace %s: %w", kind.GVK.Kind, l.owner.Namespace, cli.WithHint(err))
			}
			return meta.EachListItem(list, func(item runtime.Object) error {
				children = append(children, item.(client.Object))
				return nil
			})
		})
	}
	return children, group.Wait()
}

// newObject returns an empty object of a kind. It is unstructured if the scheme does not have the kind.
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

// listData lists claims and the metadata of Secrets. It skips both for applications without data.
func (l *observer) listData(ctx context.Context, in *simulate.Input) ([]client.Object, error) {
	if l.live == nil && !slices.ContainsFunc(l.specs, func(c desired.ExpandedComponent) bool { return c.Stateful != nil }) {
		return nil, nil
	}
	managed := []client.ListOption{client.InNamespace(l.owner.Namespace), client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy}}
	var claims corev1.PersistentVolumeClaimList
	if err := l.client.List(ctx, &claims, managed...); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", l.owner.Namespace, cli.WithHint(err))
	}
	var data []client.Object
	var retained []desired.RetainedObject
	for i := range claims.Items {
		c := &claims.Items[i]
		data = append(data, c)
		retained = append(retained, desired.RetainedClaim(l.owner.Keys, c))
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := l.client.List(ctx, secrets, managed...)
	if apierrors.IsForbidden(err) {
		in.SecretsHidden = true
		return append(data, l.assumeCredentials(desired.RetainedFor(l.owner, l.specs, retained))...), nil
	}
	if err != nil {
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", l.owner.Namespace, cli.WithHint(err))
	}
	for i := range secrets.Items {
		secrets.Items[i].SetGroupVersionKind(desired.KindSecret)
		data = append(data, &secrets.Items[i])
	}
	return data, nil
}

// assumeCredentials returns the credentials of existing data if the caller has no permission to list
// Secrets.
func (l *observer) assumeCredentials(retained []desired.RetainedObject) (assumed []client.Object) {
	secrets, _ := desired.CredentialSecrets(l.owner, l.specs, retained)
	for _, c := range desired.Build(l.owner, l.specs, desired.ClusterState{Retained: retained}) {
		if c.Data == nil || !c.Data.HasClaims() || !slices.ContainsFunc(secrets, func(r desired.Ref) bool { return r.Name == c.Data.Secret }) {
			continue
		}
		l.addNote("No permission to list Secrets: the plan assumes that Secret %s with the credentials of component %q exists.",
			c.Data.Secret, c.Name)
		secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: l.owner.Namespace, Name: c.Data.Secret, Labels: maps.Clone(desired.RetainedLabels(l.owner, c))}}
		secret.SetGroupVersionKind(desired.KindSecret)
		assumed = append(assumed, secret)
	}
	return assumed
}

// getMetadata reads the metadata of a ConfigMap or Secret, or nil if it does not exist.
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
