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
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create;patch;delete

// listRetained reads, from the cache, what is kept of an application, of components that left the
// spec too, and what is where its components would begin.
func (r *reconciler[T]) listRetained(ctx context.Context, owner desired.Owner, specs []Component) ([]desired.RetainedObject, error) {
	all, err := listClaimsAndSecrets(ctx, r.cache, owner.Namespace, client.MatchingFields{managercache.IndexRetained: managercache.RetainedKey(owner.KindLabel(), owner.Name)})
	if err != nil {
		return nil, err
	}
	for _, workload := range desired.RetainedWorkloadIDs(owner, specs, all) {
		matched, err := listClaimsAndSecrets(ctx, r.cache, owner.Namespace, client.MatchingFields{managercache.IndexWorkload: workload})
		if err != nil {
			return nil, err
		}
		for _, k := range matched {
			all = appendIfMissing(all, k)
		}
	}
	return addUnlabeledSecrets(ctx, r.cache, owner, specs, all)
}

func appendIfMissing(all []desired.RetainedObject, k desired.RetainedObject) []desired.RetainedObject {
	if slices.ContainsFunc(all, func(o desired.RetainedObject) bool { return o.ID == k.ID }) {
		return all
	}
	return append(all, k)
}

// addUnlabeledSecrets adds the Secrets that have the name of credentials and do not say whose they
// are: people restore what was lost without our labels.
func addUnlabeledSecrets(ctx context.Context, reader client.Reader, owner desired.Owner, specs []Component, retained []desired.RetainedObject) ([]desired.RetainedObject, error) {
	ownSecrets, _ := desired.CredentialSecrets(owner, specs, retained)
	for _, ref := range ownSecrets {
		secret := managercache.PartialMetadata(desired.RefSecret)
		err := reader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: ref.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, ref.Name, err)
		}
		if err == nil && secret.Labels[appsapi.LabelWorkload] == "" {
			retained = appendIfMissing(retained, desired.RetainedObject{ID: desired.ID{Kind: desired.KindSecret, Name: ref.Name}, Object: secret})
		}
	}
	return desired.SortRetained(retained), nil
}

// listRetainedLive reads the same from the API server.
func (r *reconciler[T]) listRetainedLive(ctx context.Context, owner desired.Owner, specs []Component) ([]desired.RetainedObject, error) {
	all, err := listClaimsAndSecrets(ctx, r.apiReader, owner.Namespace, client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if err != nil {
		return nil, err
	}
	return addUnlabeledSecrets(ctx, r.apiReader, owner, specs, desired.RetainedFor(owner, specs, all))
}

func listClaimsAndSecrets(ctx context.Context, reader client.Reader, namespace string, selector client.ListOption) ([]desired.RetainedObject, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := reader.List(ctx, &claims, client.InNamespace(namespace), selector); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", namespace, err)
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := reader.List(ctx, secrets, client.InNamespace(namespace), selector); err != nil {
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", namespace, err)
	}
	var out []desired.RetainedObject
	for i := range claims.Items {
		c := &claims.Items[i]
		out = append(out, desired.RetainedObject{ID: desired.ID{Kind: desired.KindClaim, Name: c.Name}, Object: c, Claim: c})
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Labels[appsapi.LabelWorkload] != "" {
			out = append(out, desired.RetainedObject{ID: desired.ID{Kind: desired.KindSecret, Name: s.Name}, Object: s})
		}
	}
	return out, nil
}

// verifyRetained asks the API server, before a component begins, whether what we know of its data
// is all there is: a cache may be behind, and a component that begins empty beside its data
// cannot be taken back.
func (r *reconciler[T]) verifyRetained(ctx context.Context, owner desired.Owner, specs []Component, cached []desired.RetainedObject, component string) error {
	live, err := r.listRetainedLive(ctx, owner, specs)
	if err != nil {
		return err
	}
	if !slices.Equal(retainedFingerprints(live), retainedFingerprints(cached)) {
		return fmt.Errorf("the data of component %q of %s %s/%s: %w", component, owner.Kind, owner.Namespace, owner.Name, apply.ErrStale)
	}
	return nil
}

// retainedFingerprints are what decides where the data of components is.
func retainedFingerprints(retained []desired.RetainedObject) []string {
	var out []string
	for _, k := range retained {
		l := k.GetLabels()
		out = append(out, fmt.Sprint(k, k.GetUID(), k.WorkloadID(), l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance], k.Component(), k.Released(), k.GetDeletionTimestamp() != nil))
	}
	slices.Sort(out)
	return out
}

// adoptableClaims makes sure that the claims that new pods will use are not somebody else's:
// Kubernetes would use them without a word. It returns those that their owner hands over and
// that do not say yet whose they are: Kubernetes labels only the claims that it makes.
func (r *reconciler[T]) adoptableClaims(ctx context.Context, owner desired.Owner, c desired.Component, names []string) (adoptable []desired.RetainedObject, err error) {
	for _, name := range names {
		id := desired.ID{Kind: desired.KindClaim, Name: name}
		existing := &metav1.PartialObjectMetadata{}
		existing.SetGroupVersionKind(desired.KindClaim)
		switch err := r.apiReader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: name}, existing); {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("get PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, err)
		case err != nil:
		case existing.Annotations[appsapi.AnnotationAdopt] == "true":
			if existing.Labels[appsapi.LabelWorkload] != c.WorkloadID || existing.Labels[appsapi.LabelOwnerUID] != string(owner.UID) {
				adoptable = append(adoptable, desired.RetainedObject{ID: id, Object: existing})
			}
		case existing.Labels[appsapi.LabelManagedBy] == appsapi.ManagedBy: // the cache has yet to hear of it
			return nil, fmt.Errorf("PersistentVolumeClaim %s/%s: %w", owner.Namespace, name, apply.ErrStale)
		default:
			return nil, ownership.NewClaimNameConflict(owner, name)
		}
	}
	return adoptable, nil
}

// retainedHandler wakes the application that a claim or Secret belongs to.
func (r *reconciler[T]) retainedHandler() handler.EventHandler {
	enqueue := func(ctx context.Context, q queue, obj client.Object) {
		if request, ok := r.ownerRequest(ctx, obj); ok {
			q.Add(request)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { enqueue(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { enqueue(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			enqueue(ctx, q, e.ObjectOld)
			enqueue(ctx, q, e.ObjectNew)
		},
	}
}

// ownerRequest is the application that a claim or Secret belongs to. A claim that was just made
// does not say so; its StatefulSet does.
func (r *reconciler[T]) ownerRequest(ctx context.Context, obj client.Object) (reconcile.Request, bool) {
	l, name := obj.GetLabels(), ""
	switch {
	case l[appsapi.LabelWorkload] == "":
	case l[appsapi.LabelOwnerKind] == desired.KindLabel(r.gvk.GroupKind()):
		name = l[appsapi.LabelInstance]
	case l[appsapi.LabelOwnerKind] == "":
		var sets appsv1.StatefulSetList
		err := r.cache.List(ctx, &sets, client.InNamespace(obj.GetNamespace()), client.MatchingFields{managercache.IndexWorkload: l[appsapi.LabelWorkload]})
		if err == nil && len(sets.Items) > 0 {
			name = childHandler{owner: r.gvk.GroupKind()}.ownerName(&sets.Items[0])
		}
	}
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}, name != ""
}
