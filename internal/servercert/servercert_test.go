package servercert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

const name = "shop-db-headless.shop.svc"

// handshake connects a client to a server with these certificates.
func handshake(t *testing.T, server, trusted Certificate, name string) error {
	t.Helper()
	pair, err := tls.X509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	config, err := trusted.ClientConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}}) //nolint:gosec // a test server
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_ = conn.(*tls.Conn).Handshake() // the client reports the result
			_ = conn.Close()
		}
	}()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", l.Addr().String(), config)
	if err != nil {
		return err
	}
	return conn.Close()
}

func newIssuer(c client.Client, clk clock.PassiveClock) *Issuer {
	return NewIssuer(appsapi.DefaultKeys, "holdfast-system", c, c, clk)
}

func TestClientsVerifyServers(t *testing.T) {
	ours, other := newIssuer(fake.NewClientBuilder().Build(), clock.RealClock{}), newIssuer(fake.NewClientBuilder().Build(), clock.RealClock{})
	issue := func(i *Issuer, name string) Certificate {
		c, err := i.issue(t.Context(), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	ourServer, otherDatabase, otherAuthority := issue(ours, name), issue(ours, "other-headless.shop.svc"), issue(other, name)
	if err := handshake(t, ourServer, ourServer, name); err != nil {
		t.Error(err)
	}
	for server, want := range map[string]bool{"shop-db.shop.svc": true, "renamed.shop.svc.cluster.local": true, "db.other.svc": false, "shop-db": false} {
		leaf, err := ourServer.leaf()
		if err != nil {
			t.Fatal(err)
		}
		if got := leaf.VerifyHostname(server) == nil; got != want {
			t.Errorf("an application can verify server %s: %v, want %v", server, got, want)
		}
	}
	var verification *tls.CertificateVerificationError
	if err := handshake(t, otherDatabase, ourServer, name); !errors.As(err, &verification) {
		t.Errorf("the server of another database is accepted: %v", err)
	}
	if err := handshake(t, otherAuthority, ourServer, name); !errors.As(err, &verification) {
		t.Errorf("the certificate of another authority is accepted: %v", err)
	}
	if _, err := (Certificate{}).ClientConfig(name); err == nil {
		t.Error("a client without an authority trusts every server")
	}
}

func TestCertificatesCannotIssueCertificates(t *testing.T) {
	i := newIssuer(fake.NewClientBuilder().Build(), clock.RealClock{})
	c, err := i.issue(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseAuthority(c.Cert, c.Key); err == nil {
		t.Error("a server certificate is an authority")
	}
	block, _ := pem.Decode(c.Cert)
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}) {
		t.Errorf("the certificate can be used for more than a server: %+v", leaf.ExtKeyUsage)
	}
}

func TestRenew(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	clk := clocktesting.NewFakePassiveClock(time.Now())
	issuer := newIssuer(c, clk)
	data := map[string][]byte{}
	renew := func(when string, want bool, name string) {
		t.Helper()
		before := FromSecret(data)
		got, err := issuer.Renew(t.Context(), data, name)
		if err != nil {
			t.Fatal(err)
		}
		if got != want || bytes.Equal(before.Cert, data[mariadb.KeyCertificate]) == want {
			t.Errorf("%s: renewed %v, want %v", when, got, want)
		}
	}
	renew("no certificate", true, "another.shop.svc")
	renew("another server", true, name)
	renew("nothing changed", false, name)
	clk.SetTime(clk.Now().Add(lifetime - renewBefore - time.Minute))
	renew("a minute before it is due", false, name)
	clk.SetTime(clk.Now().Add(2 * time.Minute))
	renew("due", true, name)
	data[mariadb.KeyPrivateKey] = []byte("damaged")
	renew("a damaged key", true, name)
	delete(data, mariadb.KeyCA)
	renew("no authority", true, name)
}

func TestAuthorityIsStored(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	first, err := newIssuer(c, clock.RealClock{}).issue(t.Context(), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newIssuer(c, clock.RealClock{}).issue(t.Context(), name, first.CA)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.CA, second.CA) {
		t.Error("another process uses another authority")
	}
	var secret corev1.Secret
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "holdfast-system", Name: authoritySecretName}, &secret); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), &secret); err != nil {
		t.Fatal(err)
	}
	third, err := newIssuer(c, clock.RealClock{}).issue(t.Context(), name, first.CA)
	if err != nil {
		t.Fatal(err)
	}
	// Clients with either bundle connect to servers with the old certificate, and those with the new one to both.
	for what, pair := range map[string][2]Certificate{"new bundle, old server": {first, third}, "new bundle, new server": {third, third}} {
		if err := handshake(t, pair[0], pair[1], name); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if first.IsServedBy(nil) {
		t.Error("a connection without TLS uses the certificate")
	}
}

func TestDamagedAuthorityIsReported(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{corev1.TLSCertKey: []byte("x")}}
	secret.Namespace, secret.Name = "holdfast-system", authoritySecretName
	c := fake.NewClientBuilder().WithObjects(secret).Build()
	if _, err := newIssuer(c, clock.RealClock{}).issue(t.Context(), name, nil); err == nil {
		t.Error("a damaged authority is accepted")
	}
}
