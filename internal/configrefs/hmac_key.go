package configrefs

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
	hmacKeySecretName = "holdfast-content-key"
	hmacKeyField      = "key"
)

// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=secrets,verbs=create;get

// HMACKey is the random key of the hashes of Secrets. It is made once and kept in a
// Secret of the operator's own: with another key every hash would be another one.
type HMACKey struct {
	namespace string
	reader    client.Reader
	writer    client.Writer

	mu  sync.Mutex
	key []byte
}

// NewHMACKey returns the key that is stored in a namespace; it is read, or created, when it is first
// needed.
func NewHMACKey(namespace string, reader client.Reader, writer client.Writer) *HMACKey {
	return &HMACKey{namespace: namespace, reader: reader, writer: writer}
}

// keyFor returns the key for a kind: the content of ConfigMaps is no secret.
func (k *HMACKey) keyFor(ctx context.Context, kind string) ([]byte, error) {
	if kind != desired.RefSecret {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil {
		return k.key, nil
	}
	secret, err := k.getOrCreate(ctx)
	if err != nil {
		return nil, fmt.Errorf("get or make the key that Secrets are hashed with, Secret %s/%s: %w", k.namespace, hmacKeySecretName, err)
	}
	if len(secret.Data[hmacKeyField]) == 0 {
		return nil, fmt.Errorf("the key that Secrets are hashed with is empty: delete Secret %s/%s, and it is made anew", k.namespace, hmacKeySecretName)
	}
	k.key = secret.Data[hmacKeyField]
	return k.key, nil
}

func (k *HMACKey) getOrCreate(ctx context.Context) (*corev1.Secret, error) {
	name := client.ObjectKey{Namespace: k.namespace, Name: hmacKeySecretName}
	existing := &corev1.Secret{}
	if err := k.reader.Get(ctx, name, existing); !apierrors.IsNotFound(err) {
		return existing, err
	}
	generated := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Immutable:  new(true),
		Data:       map[string][]byte{hmacKeyField: make([]byte, 32)},
	}
	_, _ = rand.Read(generated.Data[hmacKeyField]) // it never fails
	err := k.writer.Create(ctx, generated, client.FieldOwner(appsapi.FieldManager))
	if apierrors.IsAlreadyExists(err) { // another replica was faster
		return existing, k.reader.Get(ctx, name, existing)
	}
	return generated, err
}
