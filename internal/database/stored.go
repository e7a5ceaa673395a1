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

// stored is the Secret with the passwords. Changes are made to it in memory, and written at
// once.
type stored struct {
	*corev1.Secret
	// before is what the API server has.
	before *corev1.Secret
}

// stored reads the Secret.
func (k *Keeper) stored(ctx context.Context, d Database) (stored, error) {
	var secret corev1.Secret
	if err := k.Reader.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: d.Secret}, &secret); err != nil {
		return stored{}, fmt.Errorf("get Secret %s/%s: %w", d.Namespace, d.Secret, err)
	}
	return stored{Secret: &secret, before: secret.DeepCopy()}, nil
}

func (s stored) password(key string) string { return string(s.Data[key]) }
func (s stored) pending(key string) string  { return string(s.Data[pendingPrefix+key]) }

// remember writes down what a password is to become.
func (s stored) remember(key, password string) { s.Data[pendingPrefix+key] = []byte(password) }

// adopt makes a password the one that an account has; what was there instead is what it is to become.
func (s stored) adopt(key, password string) {
	if former := s.Data[key]; len(former) > 0 {
		s.Data[pendingPrefix+key] = former
	}
	s.Data[key] = []byte(password)
	s.complete(key)
}

// forget strikes out the password that was before.
func (s stored) forget(key string) {
	s.Data[key] = s.Data[pendingPrefix+key]
	delete(s.Data, pendingPrefix+key)
	s.complete(key)
}

// turn lets the two change places.
func (s stored) turn(key string) {
	pending := pendingPrefix + key
	s.Data[key], s.Data[pending] = s.Data[pending], s.Data[key]
	s.complete(key)
}

// complete adds what pods are shown of a password, and says whether it was missing or wrong.
func (s stored) complete(key string) bool {
	hash := mariadb.Hash(s.password(key))
	if string(s.Data[mariadb.HashKey(key)]) == hash {
		return false
	}
	s.Data[mariadb.HashKey(key)] = []byte(hash)
	return true
}

// due says whether generated passwords have to be replaced.
func (s stored) due(requested string, everyDays *int32, now time.Time) bool {
	if requested != "" && requested != s.Annotations[appsapi.AnnotationRotationRequested] {
		return true
	}
	return everyDays != nil && !now.Before(s.rotated().AddDate(0, 0, int(*everyDays)))
}

// rotated is when the passwords were last replaced, or made.
func (s stored) rotated() time.Time {
	at, err := time.Parse(time.RFC3339, s.Annotations[appsapi.AnnotationRotatedAt])
	if err != nil {
		return s.CreationTimestamp.Time
	}
	return at
}

// note writes down that a request was heard, and when.
func (s stored) note(requested string, now time.Time) {
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[appsapi.AnnotationRotationRequested] = requested
	s.Annotations[appsapi.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339)
}
