package servercert

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// authoritySecretName is the name of the Secret with the authority.
const authoritySecretName = "holdfast-database-ca"

// Issuer issues certificates with the authority that is stored in a Secret in the namespace of the operator. The
// authority is created on first use.
type Issuer struct {
	keys      *appsapi.Keys
	namespace string
	reader    client.Reader
	writer    client.Writer
	clock     clock.PassiveClock

	mu        sync.Mutex
	authority *Authority
}

// NewIssuer returns an issuer whose authority is stored in a namespace.
func NewIssuer(keys *appsapi.Keys, namespace string, reader client.Reader, writer client.Writer, c clock.PassiveClock) *Issuer {
	return &Issuer{keys: keys, namespace: namespace, reader: reader, writer: writer, clock: c}
}

// issue issues a certificate for a server.
func (i *Issuer) issue(ctx context.Context, name string, previousCA []byte) (Certificate, error) {
	a, err := i.load(ctx)
	if err != nil {
		return Certificate{}, fmt.Errorf("get or create the certificate authority in Secret %s/%s: %w", i.namespace, authoritySecretName, err)
	}
	return a.Issue(name, previousCA, i.clock.Now())
}

func (i *Issuer) load(ctx context.Context) (*Authority, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.authority != nil {
		return i.authority, nil
	}
	secret, err := i.getOrCreate(ctx, i.clock.Now())
	if err != nil {
		return nil, err
	}
	a, err := ParseAuthority(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("%w: delete the Secret to have it recreated", err)
	}
	i.authority = a
	return a, nil
}

func (i *Issuer) getOrCreate(ctx context.Context, now time.Time) (*corev1.Secret, error) {
	name := client.ObjectKey{Namespace: i.namespace, Name: authoritySecretName}
	existing := &corev1.Secret{}
	if err := i.reader.Get(ctx, name, existing); !apierrors.IsNotFound(err) {
		return existing, err
	}
	cert, key, err := NewAuthority(now)
	if err != nil {
		return nil, err
	}
	generated := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Type:       corev1.SecretTypeTLS,
		Immutable:  new(true),
		Data:       map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
	}
	err = i.writer.Create(ctx, generated, client.FieldOwner(i.keys.FieldManager))
	if apierrors.IsAlreadyExists(err) { // created by another replica
		return existing, i.reader.Get(ctx, name, existing)
	}
	return generated, err
}

// Renew adds a certificate to the data of a Secret if it has none for this server, or if it expires soon.
func (i *Issuer) Renew(ctx context.Context, data map[string][]byte, name string) (renewed bool, err error) {
	current := FromSecret(data)
	if !current.needsRenewal(name, i.clock.Now()) {
		return false, nil
	}
	next, err := i.issue(ctx, name, current.CA)
	if err != nil {
		return false, err
	}
	data[mariadb.KeyCertificate], data[mariadb.KeyPrivateKey], data[mariadb.KeyCA] = next.Cert, next.Key, next.CA
	return true, nil
}

// FromSecret returns the certificate in the data of a Secret.
func FromSecret(data map[string][]byte) Certificate {
	return Certificate{Cert: data[mariadb.KeyCertificate], Key: data[mariadb.KeyPrivateKey], CA: data[mariadb.KeyCA]}
}
