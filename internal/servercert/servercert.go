// Package servercert issues the TLS certificates of database servers.
//
//	servercert.go  certificates and their authority
//	authority.go   the Secret with the authority
package servercert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Lifetimes. A server loads a new certificate without a restart, so certificates are short-lived. A new authority must
// reach every client, so it is not replaced regularly.
const (
	lifetime          = 90 * 24 * time.Hour
	renewBefore       = 30 * 24 * time.Hour
	authorityLifetime = 20 * 365 * 24 * time.Hour
	// clockSkew is how far the clocks of servers and clients may be behind.
	clockSkew = time.Hour
)

// Certificate is a server certificate with its key, in PEM, as in a Secret of type kubernetes.io/tls.
type Certificate struct {
	Cert, Key []byte
	// CA are the authorities that clients must trust.
	CA []byte
}

// Authority issues certificates.
type Authority struct {
	cert    *x509.Certificate
	certPEM []byte
	key     *ecdsa.PrivateKey
}

// NewAuthority generates an authority.
func NewAuthority(now time.Time) (certPEM, keyPEM []byte, err error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Holdfast database servers"},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(authorityLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	return sign(template, nil)
}

// ParseAuthority reads an authority.
func ParseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, errors.New("not an ECDSA certificate authority")
	}
	return &Authority{cert: pair.Leaf, certPEM: certPEM, key: key}, nil
}

// Issue issues a certificate for the Service of a server, <service>.<namespace>.svc. Clients that trust the previous
// authorities keep working.
func (a *Authority) Issue(name string, previousCA []byte, now time.Time) (Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "MariaDB"},
		DNSNames:    dnsNames(name),
		NotBefore:   now.Add(-clockSkew),
		NotAfter:    now.Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	cert, key, err := sign(template, a)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{Cert: cert, Key: key, CA: a.bundle(previousCA)}, nil
}

// dnsNames returns the names in the certificate of a server. Applications connect to a Service that has another name
// after a rename, hence the wildcard; the operator requires the name of the server itself.
func dnsNames(name string) []string {
	_, namespace, _ := strings.Cut(name, ".")
	const clusterDomain = ".cluster.local"
	return []string{name, name + clusterDomain, "*." + namespace, "*." + namespace + clusterDomain}
}

// bundle returns this authority and the previous one.
func (a *Authority) bundle(previous []byte) []byte {
	out := slices.Clone(a.certPEM)
	block, _ := pem.Decode(previous)
	if block != nil && !bytes.Equal(block.Bytes, a.cert.Raw) {
		out = append(out, pem.EncodeToMemory(block)...)
	}
	return out
}

// sign generates a key and signs a certificate for it; a nil authority signs with the same key.
func sign(template *x509.Certificate, a *Authority) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, err
	}
	parent, parentKey := template, key
	if a != nil {
		parent, parentKey = a.cert, a.key
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), nil
}

// leaf returns the parsed server certificate, or an error if the key does not belong to it.
func (c Certificate) leaf() (*x509.Certificate, error) {
	pair, err := tls.X509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, err
	}
	return pair.Leaf, nil
}

// needsRenewal reports whether a certificate is incomplete, is for another server or expires soon.
func (c Certificate) needsRenewal(name string, now time.Time) bool {
	leaf, err := c.leaf()
	return err != nil || len(c.CA) == 0 || !now.Before(leaf.NotAfter.Add(-renewBefore)) || !slices.Contains(leaf.DNSNames, name)
}

// IsServedBy reports whether a server uses this certificate.
func (c Certificate) IsServedBy(served *x509.Certificate) bool {
	leaf, err := c.leaf()
	return err == nil && served != nil && leaf.Equal(served)
}

// ClientConfig returns the TLS configuration of a client that accepts only this server, and no other server of the
// namespace.
func (c Certificate) ClientConfig(name string) (*tls.Config, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(c.CA) {
		return nil, fmt.Errorf("no certificate authority of server %s", name)
	}
	return &tls.Config{RootCAs: pool, ServerName: name, MinVersion: tls.VersionTLS12, VerifyConnection: func(state tls.ConnectionState) error {
		served := state.PeerCertificates[0]
		if slices.Contains(served.DNSNames, name) {
			return nil
		}
		return &tls.CertificateVerificationError{
			UnverifiedCertificates: state.PeerCertificates, Err: x509.HostnameError{Certificate: served, Host: name},
		}
	}}, nil
}
