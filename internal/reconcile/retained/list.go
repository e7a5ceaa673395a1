package retained

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// Reader reads claims and credentials.
type Reader struct {
	Cache     client.Reader
	APIReader client.Reader
}

// List reads from the cache the claims and credentials of an application, including those of
// removed components, and those that its components would use.
func (r Reader) List(ctx context.Context, owner desired.Owner, specs []desired.ExpandedComponent) ([]desired.RetainedObject, error) {
	all, err := listClaimsAndSecrets(ctx, r.Cache, owner, client.MatchingFields{childkind.IndexRetained: childkind.RetainedKey(owner.KindLabel(), owner.Name)})
	if err != nil {
		return nil, err
	}
	for _, workload := range desired.RetainedWorkloadIDs(owner, specs, all) {
		matched, err := listClaimsAndSecrets(ctx, r.Cache, owner, client.MatchingFields{childkind.IndexWorkload: workload})
		if err != nil {
			return nil, err
		}
		for _, k := range matched {
			all = appendIfMissing(all, k)
		}
	}
	return addUnlabeledSecrets(ctx, r.Cache, owner, specs, all)
}

// ListLive reads the same from the API server.
func (r Reader) ListLive(ctx context.Context, owner desired.Owner, specs []desired.ExpandedComponent) ([]desired.RetainedObject, error) {
	all, err := listClaimsAndSecrets(ctx, r.APIReader, owner, client.MatchingLabels{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if err != nil {
		return nil, err
	}
	return addUnlabeledSecrets(ctx, r.APIReader, owner, specs, desired.RetainedFor(owner, specs, all))
}

// Verify checks before a component starts that its data in the API server is the same as in the cache:
// starting with an empty volume although data exists cannot be undone.
func (r Reader) Verify(ctx context.Context, owner desired.Owner, specs []desired.ExpandedComponent, cached []desired.RetainedObject, component string) error {
	live, err := r.ListLive(ctx, owner, specs)
	if err != nil {
		return err
	}
	if !slices.Equal(fingerprints(owner.Keys, live), fingerprints(owner.Keys, cached)) {
		return fmt.Errorf("the data of component %q of %s %s/%s: %w", component, owner.Kind, owner.Namespace, owner.Name, apply.ErrStale)
	}
	return nil
}

// fingerprints contain every field that determines which data a component uses.
func fingerprints(keys *appsapi.Keys, retained []desired.RetainedObject) []string {
	var out []string
	for _, k := range retained {
		l := k.GetLabels()
		out = append(out, fmt.Sprint(k, k.GetUID(), k.WorkloadID(), l[keys.OwnerKind], l[appsapi.LabelInstance], k.Component(), k.Released(), k.GetDeletionTimestamp() != nil))
	}
	slices.Sort(out)
	return out
}

func listClaimsAndSecrets(ctx context.Context, reader client.Reader, owner desired.Owner, selector client.ListOption) ([]desired.RetainedObject, error) {
	var claims corev1.PersistentVolumeClaimList
	if err := reader.List(ctx, &claims, client.InNamespace(owner.Namespace), selector); err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims of namespace %s: %w", owner.Namespace, err)
	}
	secrets := &metav1.PartialObjectMetadataList{}
	secrets.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := reader.List(ctx, secrets, client.InNamespace(owner.Namespace), selector); err != nil {
		return nil, fmt.Errorf("list Secrets of namespace %s: %w", owner.Namespace, err)
	}
	var out []desired.RetainedObject
	for i := range claims.Items {
		c := &claims.Items[i]
		out = append(out, desired.RetainedClaim(owner.Keys, c))
	}
	for i := range secrets.Items {
		if s := &secrets.Items[i]; s.Labels[owner.Keys.Workload] != "" {
			out = append(out, desired.RetainedSecret(owner.Keys, s))
		}
	}
	return out, nil
}

// addUnlabeledSecrets adds the Secrets that have the name of credentials but no labels: users who
// restore lost credentials do not set them.
func addUnlabeledSecrets(ctx context.Context, reader client.Reader, owner desired.Owner, specs []desired.ExpandedComponent, retained []desired.RetainedObject) ([]desired.RetainedObject, error) {
	ownSecrets, _ := desired.CredentialSecrets(owner, specs, retained)
	for _, ref := range ownSecrets {
		secret := childkind.NewConfigRefMetadata(desired.RefSecret)
		err := reader.Get(ctx, types.NamespacedName{Namespace: owner.Namespace, Name: ref.Name}, secret)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, ref.Name, err)
		}
		if err == nil && secret.Labels[owner.Keys.Workload] == "" {
			retained = appendIfMissing(retained, desired.RetainedSecret(owner.Keys, secret))
		}
	}
	return desired.SortRetained(retained), nil
}

func appendIfMissing(all []desired.RetainedObject, k desired.RetainedObject) []desired.RetainedObject {
	if slices.ContainsFunc(all, func(o desired.RetainedObject) bool { return o.ID == k.ID }) {
		return all
	}
	return append(all, k)
}
