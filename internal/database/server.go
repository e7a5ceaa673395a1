package database

import (
	"context"
	"net"
	"strconv"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
)

// server is the server of a database, as observed by logging in.
type server struct {
	address string
	// connectionsExhausted means that a login failed because all connections are used,
	// accountLimited because of a limit of the account.
	connectionsExhausted, accountLimited bool
}

func (s *server) hostPort(port int) string { return net.JoinHostPort(s.address, strconv.Itoa(port)) }

// accepts reports whether an account can log in with a password. If all connections are used, it
// uses the admin port.
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
