package database

import (
	"context"
	"net"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
)

// server is the server of a database, as its passwords let us see it.
type server struct {
	address string
	// connectionsExhausted says that it had no connection left for others than us, and limited that an account had all that it may have.
	connectionsExhausted, accountLimited bool
}

func (s *server) hostPort(port int) string { return net.JoinHostPort(s.address, strconv.Itoa(port)) }

// accepts says whether an account gets in with a password. When the server is full, root is let in
// by another door.
func (s *server) accepts(ctx context.Context, user, password, schema string) (bool, error) {
	if password == "" {
		return false, nil
	}
	l := session.Login{Address: s.hostPort(mariadb.Port), User: user, Password: password, Schema: schema}
	ok, err := l.CanLogIn(ctx)
	if session.ErrorKindOf(err) == session.TooManyConnections {
		s.connectionsExhausted = true
		l.Address = s.hostPort(mariadb.AdminPort)
		ok, err = l.CanLogIn(ctx)
	}
	if session.ErrorKindOf(err) == session.UserConnectionLimit { // it is asked for its password before
		s.accountLimited = true
		return true, nil
	}
	return ok, err
}

// execAsRoot logs in with the first password that opens, by the other door if need be.
func (s *server) openAsRoot(ctx context.Context, passwords ...string) (*session.Session, error) {
	var last error
	for _, password := range passwords {
		if password == "" {
			continue
		}
		l := session.Login{Address: s.hostPort(mariadb.Port), User: session.Root, Password: password}
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
