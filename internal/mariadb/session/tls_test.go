package session_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/servercert"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
)

// authority issues certificates for a test.
type authority struct {
	*testing.T
	*servercert.Authority
}

func newAuthority(t *testing.T) authority {
	cert, key, err := servercert.NewAuthority(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	a, err := servercert.ParseAuthority(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, a}
}

const serverName = "db.shop.svc"

func (a authority) issue() servercert.Certificate {
	a.Helper()
	c, err := a.Issue(serverName, nil, time.Now())
	if err != nil {
		a.Fatal(err)
	}
	return c
}

// clientConfig trusts this authority.
func (a authority) clientConfig(name string) *tls.Config {
	a.Helper()
	config, err := a.issue().ClientConfig(name)
	if err != nil {
		a.Fatal(err)
	}
	return config
}

// forEachTLSServer runs a test with servers that use a certificate. use replaces the files of the server.
func forEachTLSServer(t *testing.T, first servercert.Certificate, test func(d dbServer, use func(servercert.Certificate))) {
	t.Run("simulated", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		current := first
		s := &sqlsim.Server{
			Volume: sqlsim.NewVolume(mariadb.Hash("root of a test"), "", ""), Version: "11.8.6-MariaDB",
			LoadCertificate: func() (*tls.Certificate, error) {
				pair, err := tls.X509KeyPair(current.Cert, current.Key)
				return &pair, err
			},
		}
		go s.Serve(l)
		test(dbServer{t, l.Addr().String(), "root of a test"}, func(c servercert.Certificate) { current = c })
	})
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			if testing.Short() {
				t.Skip("starts a server")
			}
			t.Parallel()
			s := mariadbd.New(t, version)
			s.UseCertificate(first.Cert, first.Key)
			s.Start()
			test(newDBServer(t, s), func(c servercert.Certificate) { s.UseCertificate(c.Cert, c.Key) })
		})
	}
}

func TestServersAreVerified(t *testing.T) {
	t.Parallel()
	ours, other := newAuthority(t), newAuthority(t)
	forEachTLSServer(t, ours.issue(), func(d dbServer, _ func(servercert.Certificate)) {
		for name, tc := range map[string]struct {
			config *tls.Config
			want   session.ErrorKind
		}{
			"our authority":     {ours.clientConfig(serverName), ""},
			"another name":      {ours.clientConfig("db.other.svc"), session.UntrustedServer},
			"another authority": {other.clientConfig(serverName), session.UntrustedServer},
		} {
			login := d.login(session.Root, d.rootPassword, "")
			login.TLS = tc.config
			s, err := login.Open(d.Context())
			if got := session.ErrorKindOf(err); got != tc.want {
				d.Fatalf("%s: kind %q, want %q: %v", name, got, tc.want, err)
			}
			if err != nil {
				d.Log(err)
				continue
			}
			if _, err := s.Version(d.Context()); err != nil || s.ServerCertificate() == nil {
				d.Errorf("%s: the connection does not work or is not encrypted: %v", name, err)
			}
			s.Close()
		}
	})
}

// TestSecondPasswordOverTLS logs in with the second password of an account, for which the server asks once more.
func TestSecondPasswordOverTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	forEachTLSServer(t, a.issue(), func(d dbServer, _ func(servercert.Certificate)) {
		login := d.login(session.Root, d.rootPassword, "")
		login.TLS = a.clientConfig(serverName)
		s, err := login.Open(d.Context())
		d.must(err)
		defer s.Close()
		version, err := s.Version(d.Context())
		d.must(err)
		if !version.SupportsTwoPasswords() {
			d.Skip("this version has one password per account")
		}
		d.must(s.SetPasswords(d.Context(), session.Root, mariadb.Hash("first"), mariadb.Hash("second")))
		for password, want := range map[string]bool{"first": true, "second": true, "third": false} {
			login.Password = password
			if got, err := login.CanLogIn(d.Context()); got != want || err != nil {
				d.Errorf("password %q: %v, %v", password, got, err)
			}
		}
	})
}

func TestServersWithoutTLSAreNotTrusted(t *testing.T) {
	t.Parallel()
	config := newAuthority(t).clientConfig(serverName)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go (&sqlsim.Server{Volume: sqlsim.NewVolume(mariadb.Hash("x"), "", ""), Version: "11.8.6-MariaDB"}).Serve(l)
	_, err = session.Login{Address: l.Addr().String(), User: session.Root, Password: "x", TLS: config}.Open(t.Context())
	if got := session.ErrorKindOf(err); got != session.UntrustedServer {
		t.Errorf("kind %q, want %q: %v", got, session.UntrustedServer, err)
	}
}

func TestReloadCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	first, second := a.issue(), a.issue()
	forEachTLSServer(t, first, func(d dbServer, use func(servercert.Certificate)) {
		login := d.login(session.Root, d.rootPassword, "")
		login.TLS = a.clientConfig(serverName)
		open := func() *session.Session {
			s, err := login.Open(d.Context())
			d.must(err)
			d.Cleanup(s.Close)
			return s
		}
		before := open()
		use(second)
		if !first.IsServedBy(open().ServerCertificate()) {
			d.Error("the server uses the new certificate before it is asked to")
		}
		d.must(before.ReloadCertificate(d.Context()))
		if got := open().ServerCertificate(); !second.IsServedBy(got) || first.IsServedBy(got) {
			d.Error("the server does not use the new certificate")
		}
		d.must(before.Ping(d.Context())) // open sessions go on
	})
}
