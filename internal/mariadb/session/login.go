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

// How long a server may take to answer. A statement of ours changes a row of the system's
// tables; what takes longer than that waits for a lock.
const (
	dialTimeout  = 3 * time.Second
	queryTimeout = 5 * time.Second
)

// Login is who wants to get in, and where.
type Login struct {
	// Address is host:port.
	Address string
	User    string
	// Password is never logged, and is no part of an error.
	Password string
	// Schema is the one to be in; "" for none.
	Schema string
}

// Session is a connection to a server.
type Session struct {
	db   *sql.DB
	conn *sql.Conn
}

// Open logs in. The error says why it cannot, see ErrorKindOf.
func (l Login) Open(ctx context.Context) (*Session, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.DBName = "tcp", l.Address, l.User, l.Password, l.Schema
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = dialTimeout, queryTimeout, queryTimeout
	cfg.Logger = &mysql.NopLogger{} // every error is returned, too
	// An operator that runs outside of its cluster gets to pods by ALL_PROXY.
	cfg.DialFunc = proxy.Dial
	// What quotes mean must not depend on how the server is set up, and a session that we have
	// left must not keep a connection from others.
	cfg.Params = map[string]string{"sql_mode": "''", "wait_timeout": "30"}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("log in to %s as %s: %w", l.Address, l.User, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		_ = db.Close() // there is nothing in it
		return nil, &sessionError{fmt.Errorf("log in to %s as %s: %w", l.Address, l.User, err)}
	}
	return &Session{db: db, conn: conn}, nil
}

// CanLogIn says whether the server lets somebody in. Its error is that nobody can say.
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
	_ = s.conn.Close() // the connection goes with the pool
	_ = s.db.Close()
}

// Ping asks the server for an answer that it has to compute.
func (s *Session) Ping(ctx context.Context) error {
	var one int
	if err := s.conn.QueryRowContext(ctx, "SELECT 1").Scan(&one); err != nil {
		return &sessionError{fmt.Errorf("ask the server: %w", err)}
	}
	return nil
}

func (s *Session) exec(ctx context.Context, what, statement string) error {
	if _, err := s.conn.ExecContext(ctx, statement); err != nil {
		return &sessionError{fmt.Errorf("%s: %w", what, err)}
	}
	return nil
}

// Version asks which server it is.
func (s *Session) Version(ctx context.Context) (mariadb.Version, error) {
	var text string
	if err := s.conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&text); err != nil {
		return mariadb.Version{}, &sessionError{fmt.Errorf("ask the server for its version: %w", err)}
	}
	return mariadb.ParseVersion(text)
}
