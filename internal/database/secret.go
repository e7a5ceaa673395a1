package database

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// pendingPrefix is the prefix of keys for pending passwords.
const pendingPrefix = "pending-"

// passwordSecret is the Secret with the passwords. Changes are collected in memory and written
// together.
type passwordSecret struct {
	*corev1.Secret
	keys *appsapi.Keys
	// original is the Secret as read from the API server.
	original *corev1.Secret
}

// readPasswords reads the Secret.
func (r *Reconciler) readPasswords(ctx context.Context, d Database) (passwordSecret, error) {
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Secret}, &secret); err != nil {
		return passwordSecret{}, fmt.Errorf("get Secret %s/%s: %w", d.Namespace, d.Secret, err)
	}
	return passwordSecret{Secret: &secret, keys: r.Keys, original: secret.DeepCopy()}, nil
}

func (s passwordSecret) password(key string) string { return string(s.Data[key]) }
func (s passwordSecret) pending(key string) string  { return string(s.Data[pendingPrefix+key]) }

// setPending stores the next password.
func (s passwordSecret) setPending(key, password string) {
	s.Data[pendingPrefix+key] = []byte(password)
}

// adopt stores a password as the current one. A different stored password becomes the pending one.
func (s passwordSecret) adopt(key, password string) {
	if former := s.Data[key]; len(former) > 0 {
		s.Data[pendingPrefix+key] = former
	}
	s.Data[key] = []byte(password)
	s.updateHash(key)
}

// promotePending replaces the current password by the pending one.
func (s passwordSecret) promotePending(key string) {
	s.Data[key] = s.Data[pendingPrefix+key]
	delete(s.Data, pendingPrefix+key)
	s.updateHash(key)
}

// swap exchanges the current and the pending password.
func (s passwordSecret) swap(key string) {
	pending := pendingPrefix + key
	s.Data[key], s.Data[pending] = s.Data[pending], s.Data[key]
	s.updateHash(key)
}

// updateHash updates the hash of a password, and reports whether it was missing or wrong.
func (s passwordSecret) updateHash(key string) bool {
	hash := mariadb.Hash(s.password(key))
	if string(s.Data[mariadb.HashKey(key)]) == hash {
		return false
	}
	s.Data[mariadb.HashKey(key)] = []byte(hash)
	return true
}

// rotationDue reports whether generated passwords must be rotated.
func (s passwordSecret) rotationDue(requested string, everyDays *int32, now time.Time) bool {
	if requested != "" && requested != s.Annotations[s.keys.RotationRequested] {
		return true
	}
	return everyDays != nil && !now.Before(s.lastRotation().AddDate(0, 0, int(*everyDays)))
}

// lastRotation is when the passwords were last rotated or created.
func (s passwordSecret) lastRotation() time.Time {
	at, err := time.Parse(time.RFC3339, s.Annotations[s.keys.RotatedAt])
	if err != nil {
		return s.CreationTimestamp.Time
	}
	return at
}

// recordRotation records that a rotation request was handled, and when.
func (s passwordSecret) recordRotation(requested string, now time.Time) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[s.keys.RotationRequested] = requested
	s.Annotations[s.keys.RotatedAt] = now.UTC().Format(time.RFC3339)
}

// writeSecret writes the passwords. The admission policy rejects writes to a restored Secret before the operator has
// labeled it.
func (r *Reconciler) writeSecret(ctx context.Context, s passwordSecret) error {
	if s.Labels[r.Keys.Workload] == "" {
		return fmt.Errorf("update Secret %s/%s: it was restored and has no labels yet", s.Namespace, s.Name)
	}
	err := r.Writer.Patch(ctx, s.Secret, client.MergeFromWithOptions(s.original, client.MergeFromWithOptimisticLock{}), client.FieldOwner(r.Keys.FieldManager))
	if err == nil || apierrors.IsConflict(err) {
		return err
	}
	return fmt.Errorf("update Secret %s/%s: %w", s.Namespace, s.Name, err)
}
