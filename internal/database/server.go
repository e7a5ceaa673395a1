package database

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/servercert"
)

// server is the server of a database, as observed by logging in.
type server struct {
	address string
	// tls verifies the server.
	tls *tls.Config
	// connectionsExhausted means that a login failed because all connections are used,
	// accountLimited because of a limit of the account.
	connectionsExhausted, accountLimited bool
}

// newServer returns the server of a database with this certificate.
func newServer(d Database, certificate servercert.Certificate) (*server, error) {
	config, err := certificate.ClientConfig(d.ServerName)
	return &server{address: d.Address, tls: config}, err
}

func (s *server) hostPort(port int) string { return net.JoinHostPort(s.address, strconv.Itoa(port)) }

func (s *server) login(port int, user, password, schema string) session.Login {
	return session.Login{Address: s.hostPort(port), User: user, Password: password, Schema: schema, TLS: s.tls}
}

// accepts reports whether an account can log in with a password. If all connections are used, it
// uses the admin port.
func (s *server) accepts(ctx context.Context, user, password, schema string) (bool, error) {
	if password == "" {
		return false, nil
	}
	l := s.login(mariadb.Port, user, password, schema)
	ok, err := l.CanLogIn(ctx)
	if session.ErrorKindOf(err) == session.TooManyConnections {
		s.connectionsExhausted = true
		l.Address = s.hostPort(mariadb.AdminPort)
		ok, err = l.CanLogIn(ctx)
	}
	if session.ErrorKindOf(err) == session.UserConnectionLimit { // the server checks the password before the limit
		s.accountLimited = true
		return true, nil
	}
	return ok, err
}

// openAsRoot logs in with the first accepted password, on the admin port if necessary.
func (s *server) openAsRoot(ctx context.Context, passwords ...string) (*session.Session, error) {
	var last error
	for _, password := range passwords {
		if password == "" {
			continue
		}
		l := s.login(mariadb.Port, session.Root, password, "")
		conn, err := l.Open(ctx)
		if session.ErrorKindOf(err) == session.TooManyConnections {
			l.Address = s.hostPort(mariadb.AdminPort)
			conn, err = l.Open(ctx)
		}
		if err == nil {
			return conn, nil
		}
		if last = err; session.ErrorKindOf(err) != session.AccessDenied {
			return nil, err // another password would not help
		}
	}
	return nil, last
}

// updateCertificate makes the server load its certificate again if it does not use the current one. Kubernetes may not have
// updated the file yet, so the next probe checks it again.
func updateCertificate(ctx context.Context, conn *session.Session, v mariadb.Version, current servercert.Certificate) (outdated bool, err error) {
	if current.IsServedBy(conn.ServerCertificate()) || !v.ReloadsCertificates() {
		return false, nil
	}
	return true, conn.ReloadCertificate(ctx)
}
