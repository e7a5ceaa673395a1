package session_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/testutil/mariadbd"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
)

// dbServer is a server of a test.
type dbServer struct {
	*testing.T
	address, rootPassword string
}

func (d dbServer) login(user, password, schema string) session.Login {
	return session.Login{Address: d.address, User: user, Password: password, Schema: schema}
}

func (d dbServer) openRoot() *session.Session {
	d.Helper()
	in, err := d.login(session.Root, d.rootPassword, "").Open(d.Context())
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(in.Close)
	return in
}

func (d dbServer) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// expectLogins fails unless exactly these passwords of an account are valid.
func (d dbServer) expectLogins(user, schema string, want map[string]bool) {
	d.Helper()
	for password, wantOpen := range want {
		got, err := d.login(user, password, schema).CanLogIn(d.Context())
		d.must(err)
		if got != wantOpen {
			d.Errorf("password %q of %s is valid: %v, want %v", password, user, got, wantOpen)
		}
	}
}

func newDBServer(t *testing.T, s *mariadbd.Server) dbServer {
	return dbServer{t, net.JoinHostPort(s.Address, strconv.Itoa(mariadb.Port)), s.RootPassword}
}

// forEachServer runs a test with every version, and with the simulated server of other tests, which
// must behave the same.
func forEachServer(t *testing.T, test func(dbServer)) {
	t.Run("played", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		s := &sqlsim.Server{Volume: sqlsim.NewVolume(mariadb.Hash("root of a play"), "", ""), Version: "11.8.6-MariaDB"}
		go s.Serve(l)
		test(dbServer{t, l.Addr().String(), "root of a play"})
	})
	for _, version := range mariadbd.Versions {
		t.Run(version, func(t *testing.T) {
			if testing.Short() {
				t.Skip("starts a server")
			}
			t.Parallel()
			s := mariadbd.New(t, version)
			s.Start()
			test(newDBServer(t, s))
		})
	}
}

// oddPasswords need quoting.
var oddPasswords = []string{`it's`, `a"b`, `back\slash`, `dollar$HOME`, `per%cent_`, "`tick`", `; DROP TABLE x; --`, `ü€漢`, ` leading and trailing `, `'`, `\`, `\'`, strings.Repeat("x", 128)}

func TestSetPasswords(t *testing.T) {
	t.Parallel()
	forEachServer(t, func(d dbServer) {
		root := d.openRoot()
		const user = "shop_db"
		d.must(root.EnsureAccount(d.Context(), user, user, mariadb.Hash("first")))
		d.must(root.EnsureAccount(d.Context(), user, user, mariadb.Hash("another")))
		d.expectLogins(user, user, map[string]bool{"first": true, "another": false, "": false})
		before := "first"
		for _, next := range oddPasswords {
			d.must(root.SetPasswords(d.Context(), user, mariadb.Hash(before), mariadb.Hash(next)))
			d.expectLogins(user, user, map[string]bool{before: true, next: true, next + "x": false})
			d.must(root.SetPasswords(d.Context(), user, mariadb.Hash(next)))
			d.must(root.SetPasswords(d.Context(), user, mariadb.Hash(next))) // harmless
			d.expectLogins(user, user, map[string]bool{before: false, next: true})
			before = next
		}
		for _, hashes := range [][]string{nil, {"no hash"}, {mariadb.Hash("a"), mariadb.Hash("b"), mariadb.Hash("c")}} {
			if err := root.SetPasswords(d.Context(), user, hashes...); err == nil {
				d.Errorf("%d hashes are accepted: %q", len(hashes), hashes)
			}
		}
		d.expectLogins(user, user, map[string]bool{before: true})
	})
}

// TestRootPasswordOnAllHosts checks that the password of root is changed for all hosts: MariaDB has
// one account per host.
func TestRootPasswordOnAllHosts(t *testing.T) {
	t.Parallel()
	forEachServer(t, func(d dbServer) {
		root := d.openRoot()
		d.must(root.SetPasswords(d.Context(), session.Root, mariadb.Hash("next")))
		d.expectLogins(session.Root, "mysql", map[string]bool{d.rootPassword: false, "next": true})
		if err := root.SetPasswords(d.Context(), "missing", mariadb.Hash("x")); err == nil || !strings.Contains(err.Error(), "account missing does not exist") {
			d.Errorf("the password of a missing account is changed: %v", err)
		}
	})
}

// TestSchemaIsolation checks that an account has no access to other schemas, even if its name
// contains the wildcard _.
func TestSchemaIsolation(t *testing.T) {
	t.Parallel()
	forEachServer(t, func(d dbServer) {
		root := d.openRoot()
		for _, name := range []string{"a_b", "axb"} {
			d.must(root.EnsureAccount(d.Context(), name, name, mariadb.Hash(name)))
		}
		d.expectLogins("a_b", "a_b", map[string]bool{"a_b": true})
		d.expectLogins("a_b", "axb", map[string]bool{"a_b": false})
	})
}

func TestVersion(t *testing.T) {
	t.Parallel()
	forEachServer(t, func(d dbServer) {
		v, err := d.openRoot().Version(d.Context())
		d.must(err)
		if !strings.HasSuffix(d.Name(), "/"+v.Series()) && !strings.HasSuffix(d.Name(), "/played") || !v.HasPatch || !v.SupportsTwoPasswords() {
			d.Errorf("%s reports version %+v", d.Name(), v)
		}
	})
}

func TestErrorKinds(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	s := mariadbd.New(t, "11.8", "--max-connections=10")
	s.Start()
	d := newDBServer(t, s)
	expectKind := func(want session.ErrorKind, l session.Login) {
		t.Helper()
		start := time.Now()
		in, err := l.Open(t.Context())
		if err == nil {
			in.Close()
		}
		if got := session.ErrorKindOf(err); got != want {
			t.Errorf("%v has kind %q, want %q", err, got, want)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%q took %s", want, took)
		}
		if err != nil && strings.Contains(err.Error(), l.Password) {
			t.Errorf("the error contains the password: %v", err)
		}
	}
	root := d.login(session.Root, s.RootPassword, "")
	expectKind("", root)
	expectKind(session.AccessDenied, d.login(session.Root, "secret-and-wrong", ""))
	expectKind(session.AccessDenied, d.login("nobody", "secret-and-wrong", ""))
	closedPort := root
	closedPort.Address = net.JoinHostPort(s.Address, "1")
	expectKind(session.Unreachable, closedPort)
	d.openRoot() // one of ten, and the one that is reserved for root
	var all []*session.Session
	for range 12 {
		in, err := root.Open(t.Context())
		if err != nil {
			break
		}
		all = append(all, in)
	}
	expectKind(session.TooManyConnections, root)
	admin := root
	admin.Address = net.JoinHostPort(s.Address, strconv.Itoa(mariadb.AdminPort))
	expectKind("", admin)
	for _, in := range all {
		in.Close()
	}
	s.Pause()
	expectKind(session.Unreachable, root)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := root.Open(ctx); session.ErrorKindOf(err) != session.Unreachable {
		t.Errorf("a hanging server has kind %q: %v", session.ErrorKindOf(err), err)
	}
	s.Resume()
}
