package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

const (
	keySecret = "holdfast-content-key"
	keyField  = "key"
)

// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=secrets,verbs=create;get

// contentKey is the random key of the hashes of Secrets. It is made once and kept in a
// Secret of the operator's own: with another key every hash would be another one.
type contentKey struct {
	namespace string
	reader    client.Reader
	writer    client.Writer

	mu  sync.Mutex
	key []byte
}

// of returns the key for a kind: the content of ConfigMaps is no secret.
func (k *contentKey) of(ctx context.Context, kind string) ([]byte, error) {
	if kind != desired.RefSecret {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	secret, err := k.stored(ctx)
	if err != nil {
		return nil, fmt.Errorf("get or make the key that Secrets are hashed with, Secret %s/%s: %w", k.namespace, keySecret, err)
	}
	if len(secret.Data[keyField]) == 0 {
		return nil, fmt.Errorf("the key that Secrets are hashed with is empty: delete Secret %s/%s, and it is made anew", k.namespace, keySecret)
	}
	k.key = secret.Data[keyField]
	return k.key, nil
}

func (k *contentKey) stored(ctx context.Context) (*corev1.Secret, error) {
	name := client.ObjectKey{Namespace: k.namespace, Name: keySecret}
	stored := &corev1.Secret{}
	if err := k.reader.Get(ctx, name, stored); !apierrors.IsNotFound(err) {
		return stored, err
	}
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Immutable:  new(true),
		Data:       map[string][]byte{keyField: make([]byte, 32)},
	}
	_, _ = rand.Read(made.Data[keyField]) // it never fails
	err := k.writer.Create(ctx, made, client.FieldOwner(appsapi.FieldManager))
	if apierrors.IsAlreadyExists(err) { // another replica was faster
		return stored, k.reader.Get(ctx, name, stored)
	}
	return made, err
}
