package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/password"
)

// CreateSecret creates the credentials of a component. The caller has verified that no existing
// data requires older credentials.
func (a *Applier) CreateSecret(ctx context.Context, owner desired.Owner, c desired.Component) error {
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: id.Name, Labels: desired.RetainedLabels(owner, c)}}
	if err := a.fillCredentials(ctx, owner, c, secret); err != nil {
		return err
	}
	err := a.writer.Create(ctx, secret, client.FieldOwner(owner.Keys.FieldManager))
	if !apierrors.IsAlreadyExists(err) {
		if err != nil {
			return fmt.Errorf("create Secret %s/%s: %w", owner.Namespace, id.Name, err)
		}
		return nil
	}
	existing, err := a.get(ctx, a.apiReader, owner.Namespace, id)
	if err != nil {
		return err
	}
	if existing == nil || desired.RetainedSecret(owner.Keys, existing).BelongsTo(owner) {
		return staleError(owner, id) // created, but the cache does not show it yet
	}
	return ownership.NewNameConflict(owner, id, fmt.Sprintf(
		"exists and is not managed by Holdfast; delete it, or rename component %q", c.Name))
}

// CompleteSecret adds missing keys to the credentials of a component: the Secret may be older than
// the current requirements, or a user restored only the password.
func (a *Applier) CompleteSecret(ctx context.Context, owner desired.Owner, c desired.Component) error {
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	var secret corev1.Secret
	err := a.apiReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: id.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return staleError(owner, id)
	}
	if err != nil {
		return fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, id.Name, err)
	}
	before := secret.DeepCopy()
	if err := a.fillCredentials(ctx, owner, c, &secret); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before, &secret) {
		return nil // already done, but the cache does not show it yet
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = a.writer.Patch(ctx, &secret, patch, client.FieldOwner(owner.Keys.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return staleError(owner, id)
	}
	if err != nil {
		return fmt.Errorf("add the missing keys to Secret %s/%s: %w", owner.Namespace, id.Name, err)
	}
	return nil
}

// fillCredentials adds missing passwords to a Secret, and the hashes of passwords that pods read
// from files.
func (a *Applier) fillCredentials(ctx context.Context, owner desired.Owner, c desired.Component, secret *corev1.Secret) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, credential := range c.Data.Credentials {
		if len(secret.Data[credential.Key]) == 0 {
			if isUnrecoverable(owner.Keys, c, credential, secret) {
				return ownership.NewLostCredential(owner, secret.Name, credential.Key)
			}
			value, err := a.credentialValue(ctx, owner, credential)
			if err != nil {
				return err
			}
			if fault := password.InvalidReason(string(value)); c.Database != nil && fault != "" {
				return &ownership.CredentialSourceError{Message: fmt.Sprintf(
					"The password %q of component %q contains %s; choose a password without it", credential.Key, c.Name, fault)}
			}
			secret.Data[credential.Key] = value
		}
		if credential.File != "" {
			secret.Data[mariadb.HashKey(credential.Key)] = []byte(mariadb.Hash(string(secret.Data[credential.Key])))
		}
	}
	if c.Data.ServerName != "" {
		if _, err := a.Certificates.Renew(ctx, secret.Data, c.Data.ServerName); err != nil {
			return err
		}
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, owner.Keys.CredentialKeys, c.Data.RequiredKeys())
	if c.Database != nil && c.Database.RotationRequestedAt != "" && secret.UID == "" {
		// New passwords need no rotation.
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, owner.Keys.RotationRequested, c.Database.RotationRequestedAt)
	}
	return nil
}

// isUnrecoverable reports whether existing data requires a missing password, so that a new password
// would be useless. The root account can reset the passwords of applications.
func isUnrecoverable(keys *appsapi.Keys, c desired.Component, credential desired.Credential, secret *corev1.Secret) bool {
	if secret.UID == "" || !c.Data.HasClaims() || credential.Value != "" || credential.SecretRef != nil {
		return false
	}
	if c.Database != nil {
		return credential.Key == mariadb.KeyRootPassword
	}
	return slices.Contains(strings.Split(secret.Annotations[keys.CredentialKeys], ","), credential.Key)
}

// credentialValue returns the value in the spec, the value in the referenced Secret, or a new
// password.
func (a *Applier) credentialValue(ctx context.Context, owner desired.Owner, c desired.Credential) ([]byte, error) {
	if c.Value != "" {
		return []byte(c.Value), nil
	}
	if c.SecretRef == nil {
		return []byte(password.New()), nil
	}
	var source corev1.Secret
	err := a.apiReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: c.SecretRef.Name}, &source)
	if apierrors.IsNotFound(err) {
		return nil, ownership.NewMissingCredentialSecret(owner, c)
	}
	if err != nil {
		return nil, fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, c.SecretRef.Name, err)
	}
	if len(source.Data[c.SecretRef.Key]) == 0 {
		return nil, &ownership.CredentialSourceError{Message: fmt.Sprintf("Secret %s/%s, the source of credential %q, has no key %q; add the key",
			owner.Namespace, c.SecretRef.Name, c.Key, c.SecretRef.Key)}
	}
	return source.Data[c.SecretRef.Key], nil
}
