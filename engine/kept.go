package engine

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/own"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch;delete

// indexKept finds the claims and credentials of the applications of one name.
const indexKept = "kept"

// claim is watched for what is kept of a component.
var claim = &corev1.PersistentVolumeClaim{}

// keptBy is the key of a claim or Secret in indexKept.
func keptBy(obj client.Object) []string {
	l := obj.GetLabels()
	if l[appsapi.LabelInstance] == "" || l[appsapi.LabelWorkload] == "" {
		return nil
	}
	return []string{keptKey(l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance])}
}

func keptKey(kind, name string) string { return kind + "/" + name }

// kept reads, from the cache, what is kept of an application, of components that left the
// spec too, and what is where its components would begin.
func (r *reconciler[T]) kept(ctx context.Context, owner desired.Owner, specs []Component) ([]desired.Kept, error) {
	all, err := listKept(ctx, r.cache, owner.Namespace, client.MatchingFields{indexKept: keptKey(owner.Kind, owner.Name)})
	if err != nil {
		return nil, err
	}
	for _, workload := range desired.Workloads(owner, specs, all) {
		more, err := listKept(ctx, r.cache, owner.Namespace, client.MatchingFields{indexWorkload: workload})
		if err != nil {
			return nil, err
		}
		for _, k := range more {
			all = add(all, k)
		}
	}
	return unlabelled(ctx, r.cache, owner, specs, all)
}

func add(all []desired.Kept, k desired.Kept) []desired.Kept {
	if slices.ContainsFunc(all, func(o desired.Kept) bool { return o.ID == k.ID }) {
		return all
	}
	return append(all, k)
}

// unlabelled adds the Secrets that have the name of credentials and do not say whose they
// are: people restore what was lost without our labels.
func unlabelled(ctx context.Context, from client.Reader, owner desired.Owner, specs []Component, kept []desired.Kept) ([]desired.Kept, error) {
	own, _ := desired.Secrets(owner, specs, kept)
	for _, ref := range own {
		secret := sourceMetadata(desired.RefSecret)
		err := from.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: ref.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, ref.Name, err)
		}
		if err == nil && secret.Labels[appsapi.LabelWorkload] == "" {
			kept = add(kept, desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: ref.Name}, Object: secret})
		}
	}
	return desired.InOrder(kept), nil
}

// keptLive reads the same from the API server.
func (r *reconciler[T]) keptLive(ctx context.Context, owner desired.Owner, specs []Component) ([]desired.Kept, error) {
	all, err := listKept(ctx, r.live, owner.Namespace, client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if err != nil {
		return nil, err
	}
	return unlabelled(ctx, r.live, owner, specs, desired.Concerning(owner, specs, all))
}

func listKept(ctx context.Context, from client.Reader, namespace string, which client.ListOption) ([]desired.Kept, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := from.List(ctx, &claims, client.InNamespace(namespace), which); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", namespace, err)
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := from.List(ctx, secrets, client.InNamespace(namespace), which); err != nil {
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", namespace, err)
	}
	var out []desired.Kept
	for i := range claims.Items {
		c := &claims.Items[i]
		out = append(out, desired.Kept{ID: desired.ID{Kind: desired.KindClaim, Name: c.Name}, Object: c, Claim: c})
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Labels[appsapi.LabelWorkload] != "" {
			out = append(out, desired.Kept{ID: desired.ID{Kind: desired.KindSecret, Name: s.Name}, Object: s})
		}
	}
	return out, nil
}

// lookAgain asks the API server, before a component begins, whether what we know of its data
// is all there is: a cache may be behind, and a component that begins empty beside its data
// cannot be taken back.
func (r *reconciler[T]) lookAgain(ctx context.Context, owner desired.Owner, specs []Component, known []desired.Kept, component string) error {
	live, err := r.keptLive(ctx, owner, specs)
	if err != nil {
		return err
	}
	if !slices.Equal(facts(live), facts(known)) {
		return fmt.Errorf("the data of component %q of %s %s/%s: %w", component, owner.Kind, owner.Namespace, owner.Name, apply.ErrStale)
	}
	return nil
}

// facts are what decides where the data of components is.
func facts(kept []desired.Kept) []string {
	var out []string
	for _, k := range kept {
		l := k.GetLabels()
		out = append(out, fmt.Sprint(k, k.GetUID(), k.Workload(), l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance], k.Component(), k.Released(), k.GetDeletionTimestamp() != nil))
	}
	slices.Sort(out)
	return out
}

// freeClaims makes sure that the claims that new pods will use are not somebody else's:
// Kubernetes would use them without a word. It returns those that their owner hands over and
// that do not say yet whose they are: Kubernetes labels only the claims that it makes.
func (r *reconciler[T]) freeClaims(ctx context.Context, owner desired.Owner, c desired.Component, names []string) (given []desired.Kept, err error) {
	for _, name := range names {
		id := desired.ID{Kind: desired.KindClaim, Name: name}
		there := &metav1.PartialObjectMetadata{}
		there.SetGroupVersionKind(desired.KindClaim)
		switch err := r.live.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, there); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("get PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, err)
		case err != nil:
		case there.Annotations[appsapi.AnnotationAdopt] == "true":
			if there.Labels[appsapi.LabelWorkload] != c.WorkloadID || there.Labels[appsapi.LabelOwnerUID] != string(owner.UID) {
				given = append(given, desired.Kept{ID: id, Object: there})
			}
		case there.Labels[appsapi.LabelManagedBy] == appsapi.ManagedBy: // the cache has yet to hear of it
			return nil, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, apply.ErrStale)
		default:
			return nil, own.ClaimTaken(owner, name)
		}
	}
	return given, nil
}

// keptHandler wakes the application that a claim or Secret belongs to.
func (r *reconciler[T]) keptHandler() handler.EventHandler {
	wake := func(ctx context.Context, q queue, obj client.Object) {
		if request, ok := r.keeper(ctx, obj); ok {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { wake(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { wake(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			wake(ctx, q, e.ObjectOld)
			wake(ctx, q, e.ObjectNew)
		},
	}
}

// keeper is the application that a claim or Secret belongs to. A claim that was just made
// does not say so; its StatefulSet does.
func (r *reconciler[T]) keeper(ctx context.Context, obj client.Object) (reconcile.Request, bool) {
	l, name := obj.GetLabels(), ""
	switch {
	case l[appsapi.LabelWorkload] == "":
	case l[appsapi.LabelOwnerKind] == r.gvk.Kind:
		name = l[appsapi.LabelInstance]
	case l[appsapi.LabelOwnerKind] == "":
		var sets appsv1.StatefulSetList
		err := r.cache.List(ctx, &sets, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexWorkload: l[appsapi.LabelWorkload]})
		if err == nil && len(sets.Items) > 0 {
			name = childHandler{owner: r.gvk.GroupKind()}.ownerName(&sets.Items[0])
		}
	}
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}, name != ""
}
