package database

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/password"
	"github.com/holdfast-dev/holdfast/internal/rotation"
)

// account is one of the two, with what is declared about it.
type account struct {
	key, user string
	// schema is what it has to get into; "" for root.
	schema     string
	credential appsapi.Credential
	// bindingVersion is that of what tells others about it.
	bindingVersion string
	rotation.Account
}

// probe asks the server which of its passwords it takes.
func (a *account) probe(ctx context.Context, srv *server) (err error) {
	if a.PasswordAccepted, err = srv.accepts(ctx, a.user, a.Password, a.schema); err != nil {
		return err
	}
	a.PendingAccepted, err = srv.accepts(ctx, a.user, a.Pending, a.schema)
	return err
}

// loadAccounts are root's and the application's, as they are stored, declared and taken.
func (r *Reconciler) loadAccounts(ctx context.Context, d Database, s passwordSecret, binding bindingState, srv *server) (root, user *account, err error) {
	due := s.rotationDue(d.Rotation.RequestedAt, d.Rotation.EveryDays, r.Clock.Now())
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

// declaredPassword is the password that somebody wants an account to have; "" when nobody says.
func (r *Reconciler) declaredPassword(ctx context.Context, d Database, c appsapi.Credential) (string, error) {
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
		return "", &ConditionError{Reason: appsapi.ReasonCredentialSourceMissing, Message: fmt.Sprintf("Secret %s/%s, from which the password is taken, has nothing under the key %q; the password stays what it was. Add it",
			d.Namespace, c.SecretRef.Name, c.SecretRef.Key)}
	}
	return value, invalidPasswordError(password.InvalidReason(value), fmt.Sprintf("Secret %s/%s, key %q", d.Namespace, c.SecretRef.Name, c.SecretRef.Key))
}

// invalidPasswordError says that a password is none that every program reads alike.
func invalidPasswordError(problem, where string) error {
	if problem == "" {
		return nil
	}
	return &ConditionError{Reason: appsapi.ReasonCredentialSourceMissing, Message: fmt.Sprintf("%s has a password with %s; the password stays what it was. Write one without", where, problem)}
}
