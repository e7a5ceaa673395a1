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

// CreateSecret makes the credentials of a component, once. The caller has made sure that
// there is no data that older ones open.
func (a *Applier) CreateSecret(ctx context.Context, owner desired.Owner, c desired.Component) error {
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: id.Name, Labels: desired.RetainedLabels(owner, c)}}
	if err := a.fillCredentials(ctx, owner, c, secret); err != nil {
		return err
	}
	err := a.writer.Create(ctx, secret, client.FieldOwner(appsapi.FieldManager))
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
	if existing == nil || (desired.RetainedObject{ID: id, Object: existing}).BelongsTo(owner) {
		return stale(owner, id) // made before our cache knows of it
	}
	return ownership.NewNameConflict(owner, id, fmt.Sprintf("exists and is not Holdfast's, so it is left alone; delete it, or give component %q another name", c.Name))
}

// CompleteSecret adds to the credentials of a component what they lack: they may be older than
// what the component asks for today, or restored by somebody who knew only the password.
func (a *Applier) CompleteSecret(ctx context.Context, owner desired.Owner, c desired.Component) error {
	id := desired.ID{Kind: desired.KindSecret, Name: c.Data.Secret}
	var secret corev1.Secret
	err := a.apiReader.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: id.Name}, &secret)
	if apierrors.IsNotFound(err) {
		return stale(owner, id)
	}
	if err != nil {
		return fmt.Errorf("get Secret %s/%s: %w", owner.Namespace, id.Name, err)
	}
	before := secret.DeepCopy()
	if err := a.fillCredentials(ctx, owner, c, &secret); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before, &secret) {
		return nil // done: the cache has yet to show it
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err = a.writer.Patch(ctx, &secret, patch, client.FieldOwner(appsapi.FieldManager))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return stale(owner, id)
	}
	if err != nil {
		return fmt.Errorf("complete Secret %s/%s: %w", owner.Namespace, id.Name, err)
	}
	return nil
}

// fillCredentials adds the passwords that a Secret lacks, and of those that pods find in files the hashes.
func (a *Applier) fillCredentials(ctx context.Context, owner desired.Owner, c desired.Component, secret *corev1.Secret) error {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for _, credential := range c.Data.Credentials {
		if len(secret.Data[credential.Key]) == 0 {
			if isUnrecoverable(c, credential, secret) {
				return ownership.NewLostCredential(owner, secret.Name, credential.Key)
			}
			value, err := a.credentialValue(ctx, owner, credential)
			if err != nil {
				return err
			}
			if fault := password.InvalidReason(string(value)); c.Database != nil && fault != "" {
				return &ownership.CredentialSourceError{Message: fmt.Sprintf("The password %q that is declared for component %q has %s; write one without", credential.Key, c.Name, fault)}
			}
			secret.Data[credential.Key] = value
		}
		if credential.File != "" {
			secret.Data[mariadb.HashKey(credential.Key)] = []byte(mariadb.Hash(string(secret.Data[credential.Key])))
		}
	}
	metav1.SetMetaDataAnnotation(&secret.ObjectMeta, appsapi.AnnotationCredentialKeys, c.Data.RequiredKeys())
	if c.Database != nil && c.Database.Rotation.RequestedAt != "" && secret.UID == "" {
		// Passwords that are being made need not be replaced at once.
		metav1.SetMetaDataAnnotation(&secret.ObjectMeta, appsapi.AnnotationRotationRequested, c.Database.Rotation.RequestedAt)
	}
	return nil
}

// isUnrecoverable says whether a password that a Secret lacks is one that data is opened with: a new one would
// open nothing. What an application gets in with is set by root.
func isUnrecoverable(c desired.Component, credential appsapi.Credential, secret *corev1.Secret) bool {
	if secret.UID == "" || !c.Data.HasClaims() || credential.Value != "" || credential.SecretRef != nil {
		return false
	}
	if c.Database != nil {
		return credential.Key == mariadb.KeyRootPassword
	}
	return slices.Contains(strings.Split(secret.Annotations[appsapi.AnnotationCredentialKeys], ","), credential.Key)
}

// credentialValue is what the spec says, a copy of what it names, or a new one.
func (a *Applier) credentialValue(ctx context.Context, owner desired.Owner, c appsapi.Credential) ([]byte, error) {
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
		return nil, &ownership.CredentialSourceError{Message: fmt.Sprintf("Secret %s/%s, from which the credential %q is copied, has nothing under the key %q; add it",
			owner.Namespace, c.SecretRef.Name, c.Key, c.SecretRef.Key)}
	}
	return source.Data[c.SecretRef.Key], nil
}
