package configrefs

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
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

// HMACKey is the random key for the hashes of Secrets. It is created once and stored in a Secret in the
// namespace of the operator: another key would change every hash.
type HMACKey struct {
	keys      *appsapi.Keys
	namespace string
	reader    client.Reader
	writer    client.Writer

	mu  sync.Mutex
	key []byte
}

// NewHMACKey returns the key that is stored in a namespace. It is read, or created, on first use.
func NewHMACKey(keys *appsapi.Keys, namespace string, reader client.Reader, writer client.Writer) *HMACKey {
	return &HMACKey{keys: keys, namespace: namespace, reader: reader, writer: writer}
}

// idFor returns an identifier of the key for a kind; empty if the kind needs no key. It does not reveal the key.
func (k *HMACKey) idFor(ctx context.Context, kind string) (string, error) {
	key, err := k.keyFor(ctx, kind)
	if err != nil || key == nil {
		return "", err
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:4]), nil
}

// keyFor returns the key for a kind. ConfigMaps need none, because their content is not secret.
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
		return nil, fmt.Errorf("get or create the HMAC key for hashes of Secrets in Secret %s/%s: %w", k.namespace, hmacKeySecretName, err)
	}
	if len(secret.Data[hmacKeyField]) == 0 {
		return nil, fmt.Errorf("the HMAC key in Secret %s/%s is empty: delete the Secret to have it recreated", k.namespace, hmacKeySecretName)
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
	err := k.writer.Create(ctx, generated, client.FieldOwner(k.keys.FieldManager))
	if apierrors.IsAlreadyExists(err) { // created by another replica
		return existing, k.reader.Get(ctx, name, existing)
	}
	return generated, err
}
