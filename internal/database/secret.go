package database

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// pendingPrefix makes the key of a password that an account is to get of that which it has.
const pendingPrefix = "pending-"

// passwordSecret is the Secret with the passwords. Changes are made to it in memory, and written at
// once.
type passwordSecret struct {
	*corev1.Secret
	// original is what the API server has.
	original *corev1.Secret
}

// readPasswords reads the Secret.
func (r *Reconciler) readPasswords(ctx context.Context, d Database) (passwordSecret, error) {
	var secret corev1.Secret
	if err := r.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Secret}, &secret); err != nil {
		return passwordSecret{}, fmt.Errorf("get Secret %s/%s: %w", d.Namespace, d.Secret, err)
	}
	return passwordSecret{Secret: &secret, original: secret.DeepCopy()}, nil
}

func (s passwordSecret) password(key string) string { return string(s.Data[key]) }
func (s passwordSecret) pending(key string) string  { return string(s.Data[pendingPrefix+key]) }

// setPending writes down what a password is to become.
func (s passwordSecret) setPending(key, password string) {
	s.Data[pendingPrefix+key] = []byte(password)
}

// adopt makes a password the one that an account has; what was there instead is what it is to become.
func (s passwordSecret) adopt(key, password string) {
	if former := s.Data[key]; len(former) > 0 {
		s.Data[pendingPrefix+key] = former
	}
	s.Data[key] = []byte(password)
	s.updateHash(key)
}

// promotePending strikes out the password that was before.
func (s passwordSecret) promotePending(key string) {
	s.Data[key] = s.Data[pendingPrefix+key]
	delete(s.Data, pendingPrefix+key)
	s.updateHash(key)
}

// swap lets the two change places.
func (s passwordSecret) swap(key string) {
	pending := pendingPrefix + key
	s.Data[key], s.Data[pending] = s.Data[pending], s.Data[key]
	s.updateHash(key)
}

// updateHash adds what pods are shown of a password, and says whether it was missing or wrong.
func (s passwordSecret) updateHash(key string) bool {
	hash := mariadb.Hash(s.password(key))
	if string(s.Data[mariadb.HashKey(key)]) == hash {
		return false
	}
	s.Data[mariadb.HashKey(key)] = []byte(hash)
	return true
}

// rotationDue says whether generated passwords have to be replaced.
func (s passwordSecret) rotationDue(requested string, everyDays *int32, now time.Time) bool {
	if requested != "" && requested != s.Annotations[appsapi.AnnotationRotationRequested] {
		return true
	}
	return everyDays != nil && !now.Before(s.lastRotation().AddDate(0, 0, int(*everyDays)))
}

// lastRotation is when the passwords were last replaced, or made.
func (s passwordSecret) lastRotation() time.Time {
	at, err := time.Parse(time.RFC3339, s.Annotations[appsapi.AnnotationRotatedAt])
	if err != nil {
		return s.CreationTimestamp.Time
	}
	return at
}

// recordRotation writes down that a request was heard, and when.
func (s passwordSecret) recordRotation(requested string, now time.Time) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[appsapi.AnnotationRotationRequested] = requested
	s.Annotations[appsapi.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339)
}
