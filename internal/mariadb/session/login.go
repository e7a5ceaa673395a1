package session

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/net/proxy"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// Timeouts of a server. Our statements change one row of the system tables; if one takes longer, it
// waits for a lock.
const (
	dialTimeout  = 3 * time.Second
	queryTimeout = 5 * time.Second
)

// Login is an account and the server to log in to.
type Login struct {
	// Address is host:port.
	Address string
	User    string
	// Password is never logged and not part of errors.
	Password string
	// Schema is the default schema; "" for none.
	Schema string
}

// Session is a connection to a server.
type Session struct {
	db   *sql.DB
	conn *sql.Conn
}

// Open logs in. See ErrorKindOf for its errors.
func (l Login) Open(ctx context.Context) (*Session, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", l.Address, l.User, l.Password, l.Schema
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTimeout, queryTimeout, queryTimeout
	cfg.Logger = &mysql.NopLogger{} // all errors are returned
	// An operator outside of the cluster reaches pods by ALL_PROXY.
	cfg.DialFunc = proxy.Dial
	// Quoting must not depend on the configuration of the server, and an abandoned session must not
	// occupy a connection for long.
	cfg.Params = map[string]string{"sql_mode": "''", "wait_timeout": "30"}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("log in to %s as %s: %w", l.Address, l.User, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close() // it has no open connection
		return nil, &sessionError{fmt.Errorf("log in to %s as %s: %w", l.Address, l.User, err)}
	}
	return &Session{db: db, conn: conn}, nil
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

// Close ends the session.
func (s *Session) Close() {
	_ = s.conn.Close() // the pool closes the connection
	_ = s.db.Close()
}

// Ping runs a trivial query.
func (s *Session) Ping(ctx context.Context) error {
	var one int
	if err := s.conn.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return &sessionError{fmt.Errorf("ping the server: %w", err)}
	}
	return nil
}

func (s *Session) exec(ctx context.Context, what, statement string) error {
	if _, err := s.conn.ExecContext(ctx, statement); err != nil {
		return &sessionError{fmt.Errorf("%s: %w", what, err)}
	}
	return nil
}

// Version returns the version of the server.
func (s *Session) Version(ctx context.Context) (mariadb.Version, error) {
	var text string
	if err := s.conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&text); err != nil {
		return mariadb.Version{}, &sessionError{fmt.Errorf("query the server version: %w", err)}
	}
	return mariadb.ParseVersion(text)
}
