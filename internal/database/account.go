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
	schema   string
	declared appsapi.Credential
	// version is that of what tells others about it.
	version string
	rotation.Account
}

// look asks the server which of its passwords it takes.
func (a *account) look(ctx context.Context, at *server) (err error) {
	if a.Opens, err = at.opens(ctx, a.user, a.Password, a.schema); err != nil {
		return err
	}
	a.PendingOpens, err = at.opens(ctx, a.user, a.Pending, a.schema)
	return err
}

// accounts are root's and the application's, as they are stored, declared and taken.
func (k *Keeper) accounts(ctx context.Context, d Database, s stored, t told, at *server) (root, user *account, err error) {
	due := s.due(d.Rotation.RequestedAt, d.Rotation.EveryDays, k.Clock.Now())
	root = &account{key: mariadb.KeyRootPassword, user: session.Root, declared: d.Root}
	user = &account{key: mariadb.KeyPassword, user: d.Schema, schema: d.Schema, declared: d.User}
	for _, a := range []*account{root, user} {
		a.Password, a.Pending = s.password(a.key), s.pending(a.key)
		if a.Wanted, err = k.declared(ctx, d, a.declared); err != nil {
			return nil, nil, err
		}
		a.Due = due && a.Wanted == ""
		if err := a.look(ctx, at); err != nil {
			return nil, nil, err
		}
	}
	user.Told, user.version = t.password, t.version
	user.Rolled = t.version != "" && t.version == d.Known
	return root, user, nil
}

// declared is the password that somebody wants an account to have; "" when nobody says.
func (k *Keeper) declared(ctx context.Context, d Database, c appsapi.Credential) (string, error) {
	if c.Value != "" || c.SecretRef == nil {
		return c.Value, unfit(password.Fault(c.Value), "rootPass")
	}
	var source corev1.Secret
	err := k.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: c.SecretRef.Name}, &source)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get Secret %s/%s: %w", d.Namespace, c.SecretRef.Name, err)
	}
	wanted := string(source.Data[c.SecretRef.Key])
	if err != nil || wanted == "" {
		return "", &Refusal{Reason: appsapi.ReasonCredentialsMissing, Why: fmt.Sprintf("Secret %s/%s, from which the password is taken, has nothing under the key %q; the password stays what it was. Add it",
			d.Namespace, c.SecretRef.Name, c.SecretRef.Key)}
	}
	return wanted, unfit(password.Fault(wanted), fmt.Sprintf("Secret %s/%s, key %q", d.Namespace, c.SecretRef.Name, c.SecretRef.Key))
}

// unfit says that a password is none that every program reads alike.
func unfit(fault, where string) error {
	if fault == "" {
		return nil
	}
	return &Refusal{Reason: appsapi.ReasonCredentialsMissing, Why: fmt.Sprintf("%s has a password with %s; the password stays what it was. Write one without", where, fault)}
}
