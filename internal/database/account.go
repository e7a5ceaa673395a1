package database

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/password"
	"github.com/holdfast-dev/holdfast/internal/rotation"
)

// account is the account of root or of the application, with its declared password.
type account struct {
	key, user string
	// schema is the schema that the account must have access to; "" for root.
	schema     string
	credential desired.Credential
	// bindingVersion is the resourceVersion of the binding Secret; "" for root.
	bindingVersion string
	rotation.Account
}

// probe checks which passwords the server accepts.
func (a *account) probe(ctx context.Context, srv *server) (err error) {
	if a.PasswordAccepted, err = srv.accepts(ctx, a.user, a.Password, a.schema); err != nil {
		return err
	}
	a.PendingAccepted, err = srv.accepts(ctx, a.user, a.Pending, a.schema)
	return err
}

// loadAccounts returns root and the application account with their stored, declared and accepted
// passwords.
func (r *Reconciler) loadAccounts(ctx context.Context, d Database, s passwordSecret, binding bindingState, srv *server) (root, user *account, err error) {
	due := s.rotationDue(d.RotationRequestedAt, d.Rotation.EveryDays, r.Clock.Now())
	root = &account{key: mariadb.KeyRootPassword, user: session.Root, credential: d.RootCredential}
	user = &account{key: mariadb.KeyPassword, user: d.Schema, schema: d.Schema, credential: d.UserCredential}
	for _, a := range []*account{root, user} {
		a.Password, a.Pending = s.password(a.key), s.pending(a.key)
		if a.Declared, err = r.declaredPassword(ctx, d, a.credential); err != nil {
			return nil, nil, err
		}
		a.Due = due && a.Declared == ""
		if err := a.probe(ctx, srv); err != nil {
			return nil, nil, err
		}
	}
	user.Bound, user.bindingVersion = binding.password, binding.version
	user.ConsumersRolledOut = binding.version != "" && binding.version == d.ConsumedBinding
	return root, user, nil
}

// declaredPassword returns the password that the spec declares or references; "" if there is none.
func (r *Reconciler) declaredPassword(ctx context.Context, d Database, c desired.Credential) (string, error) {
	if c.Value != "" || c.SecretRef == nil {
		return c.Value, invalidPasswordError(password.InvalidReason(c.Value), "rootPass")
	}
	var source corev1.Secret
	err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: c.SecretRef.Name}, &source)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Secret %s/%s: %w", d.Namespace, c.SecretRef.Name, err)
	}
	value := string(source.Data[c.SecretRef.Key])
	if err != nil || value == "" {
		return "", &ConditionError{Reason: appsapi.ReasonCredentialSourceMissing, Message: fmt.Sprintf(
			"Secret %s/%s, the source of the password, does not exist or has no key %q; the current password stays valid. Add the key",
			d.Namespace, c.SecretRef.Name, c.SecretRef.Key)}
	}
	return value, invalidPasswordError(password.InvalidReason(value), fmt.Sprintf("Secret %s/%s, key %q", d.Namespace, c.SecretRef.Name, c.SecretRef.Key))
}

// invalidPasswordError reports a password that programs may read differently.
func invalidPasswordError(problem, where string) error {
	if problem == "" {
		return nil
	}
	return &ConditionError{Reason: appsapi.ReasonCredentialSourceMissing, Message: fmt.Sprintf(
		"%s has a password with %s; the current password stays valid. "+
			"Choose a UTF-8 password without line breaks and control characters", where, problem)}
}
