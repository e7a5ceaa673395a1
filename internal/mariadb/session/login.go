package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/net/proxy"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Timeouts of a server. Our statements change one row of the system tables; if one takes longer, it
// waits for a lock.
const (
	dialTimeout  = 3 * time.Second
	queryTimeout = 5 * time.Second
)

// maxServerText is the length of error texts of a server; no text of MariaDB is longer.
const maxServerText = 512

// Login is an account and the server to log in to.
type Login struct {
	// Address is host:port.
	Address string
	User    string
	// Password is never logged and not part of errors.
	Password string
	// Schema is the default schema; "" for none.
	Schema string
	// TLS verifies the server. Without it, the connection is not encrypted.
	TLS *tls.Config
}

// Session is a connection to a server.
type Session struct {
	conn  driver.Conn
	guard *guard
}

// Open logs in. See ErrorKindOf for its errors.
func (l Login) Open(ctx context.Context) (*Session, error) {
	s := &Session{}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", l.Address, l.User, l.Password, l.Schema
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTimeout, queryTimeout, queryTimeout
	cfg.Logger = &mysql.NopLogger{} // all errors are returned
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := proxy.Dial(ctx, network, address) // an operator outside of the cluster reaches pods by ALL_PROXY
		if err != nil {
			return nil, err
		}
		s.guard = newGuard(conn, l.TLS)
		return s.guard, nil
	}
	// Quoting must not depend on the configuration of the server, and an abandoned session must not
	// occupy a connection for long.
	cfg.Params = map[string]string{"sql_mode": "''", "wait_timeout": "30"}
	what := fmt.Sprintf("log in to %s as %s", l.Address, l.User)
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	err = s.callDriver(what, func() (err error) {
		s.conn, err = connector.Connect(ctx)
		return err
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// CanLogIn reports whether the server accepts the login. The error means that this could not be
// determined.
func (l Login) CanLogIn(ctx context.Context) (bool, error) {
	s, err := l.Open(ctx)
	switch {
	case err == nil:
		defer s.Close()
		return true, s.Ping(ctx)
	case ErrorKindOf(err) == AccessDenied:
		return false, nil
	}
	return false, err
}

// ServerCertificate returns the certificate of the server; nil if the connection is not encrypted.
func (s *Session) ServerCertificate() *x509.Certificate {
	encrypted, ok := s.guard.stream.(*tls.Conn)
	if !ok {
		return nil
	}
	return encrypted.ConnectionState().PeerCertificates[0]
}

// ReloadCertificate makes the server use the current content of its certificate files for new connections.
func (s *Session) ReloadCertificate(ctx context.Context) error {
	return s.exec(ctx, "reload the certificate", "FLUSH SSL")
}

// Close ends the session.
func (s *Session) Close() {
	if s.conn != nil {
		_ = s.callDriver("log out", s.conn.Close) // the server ends the session with the connection
	}
	if s.guard != nil {
		_ = s.guard.Close()
	}
}

// Ping runs a trivial query.
func (s *Session) Ping(ctx context.Context) error {
	_, err := s.query(ctx, "ping the server", "SELECT 1")
	return err
}

// Version returns the version of the server.
func (s *Session) Version(ctx context.Context) (mariadb.Version, error) {
	rows, err := s.query(ctx, "query the server version", "SELECT VERSION()")
	if err != nil {
		return mariadb.Version{}, err
	}
	return mariadb.ParseVersion(plaintext.Line(strings.Join(rows, " "), maxServerText))
}

func (s *Session) exec(ctx context.Context, what, statement string) error {
	return s.callDriver(what, func() error {
		_, err := s.conn.(driver.ExecerContext).ExecContext(ctx, statement, nil)
		return err
	})
}

// query returns the rows of a query, which has one column.
func (s *Session) query(ctx context.Context, what, statement string) (out []string, err error) {
	s.guard.awaitsRows = true
	defer func() { s.guard.awaitsRows = false }()
	err = s.callDriver(what, func() error {
		rows, err := s.conn.(driver.QueryerContext).QueryContext(ctx, statement, nil)
		if err != nil {
			return err
		}
		defer func() { _ = rows.Close() }()
		row := make([]driver.Value, len(rows.Columns()))
		for {
			if err = rows.Next(row); err != nil {
				break
			}
			if text, ok := row[0].([]byte); ok {
				out = append(out, string(text))
			} else {
				out = append(out, fmt.Sprint(row[0]))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return out, err
}

// callDriver calls the driver. Whatever a server sends must not crash the operator, and its texts must be safe to show.
func (s *Session) callDriver(what string, call func() error) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = &sessionError{fmt.Errorf("%s: %w: %v", what, errMalformed, problem)}
		}
	}()
	err = call()
	var serverErr *mysql.MySQLError
	switch {
	case err == nil:
		return nil
	case s.guard != nil && s.guard.failure != nil:
		err = s.guard.failure
	case errors.As(err, &serverErr):
		serverErr.Message = plaintext.Line(serverErr.Message, maxServerText)
	}
	return &sessionError{fmt.Errorf("%s: %w", what, err)}
}
