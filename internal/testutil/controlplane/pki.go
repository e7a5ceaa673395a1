package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// authority is the certificate authority of a control plane: it signs the serving certificate and all client
// certificates. It is stored on disk, so that a restarted control plane keeps its users and tokens.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

const certLifetime = 365 * 24 * time.Hour

// openAuthority loads the authority in dir, or creates one with the key that signs ServiceAccount tokens.
func openAuthority(dir string) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	a := &authority{dir: dir}
	if _, err := os.Stat(a.path("ca.key")); err == nil {
		return a, a.load()
	}
	if err := a.create(); err != nil {
		return nil, fmt.Errorf("create certificate authority: %w", err)
	}
	return a, nil
}

func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) load() error {
	certs, err := certutil.CertsFromFile(a.path("ca.crt"))
	if err != nil {
		return fmt.Errorf("load certificate authority: %w", err)
	}
	key, err := keyutil.PrivateKeyFromFile(a.path("ca.key"))
	if err != nil {
		return fmt.Errorf("load certificate authority: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return fmt.Errorf("load certificate authority: %s cannot sign", a.path("ca.key"))
	}
	a.cert, a.key = certs[0], signer
	return nil
}

func (a *authority) create() error {
	sa, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if err := writeKey(a.path("sa.key"), sa); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: "holdfast-test"}, key)
	if err != nil {
		return err
	}
	a.cert, a.key = cert, key
	if err := certutil.WriteCert(a.path("ca.crt"), a.pem()); err != nil {
		return err
	}
	return writeKey(a.path("ca.key"), key) // last: its presence means that all files exist
}

func (a *authority) pem() []byte {
	pem, err := certutil.EncodeCertificates(a.cert)
	if err != nil {
		panic(err) // encoding a parsed certificate cannot fail
	}
	return pem
}

// issueServingCert writes a certificate of the API server for hosts (addresses or DNS names).
func (a *authority) issueServingCert(name string, hosts []string) error {
	t := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
			continue
		}
		t.DNSNames = append(t.DNSNames, h)
	}
	cert, key, err := a.sign(t)
	if err != nil {
		return err
	}
	return a.write(name, cert, key)
}

// issueClientCert returns the certificate and key, as PEM, of a user with these groups.
func (a *authority) issueClientCert(user string, groups ...string) (cert, key []byte, err error) {
	return a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) write(name string, cert, key []byte) error {
	if err := certutil.WriteCert(a.path(name+".crt"), cert); err != nil {
		return err
	}
	return keyutil.WriteKey(a.path(name+".key"), key)
}

func (a *authority) sign(t *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	serial, err := rand.Int(rand.Reader, big.NewInt(math.MaxInt64))
	if err != nil {
		return nil, nil, err
	}
	t.SerialNumber = serial
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.NotBefore = a.cert.NotBefore
	t.NotAfter = time.Now().Add(certLifetime)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("sign certificate of %s: %w", t.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, err
	}
	if certPEM, err = certutil.EncodeCertificates(cert); err != nil {
		return nil, nil, err
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key)
	return certPEM, keyPEM, err
}

func writeKey(path string, key crypto.PrivateKey) error {
	pem, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	return keyutil.WriteKey(path, pem)
}
