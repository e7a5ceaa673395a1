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
	// full says that it had no connection left for others than us, and limited that an account had all that it may have.
	full, limited bool
}

func (s *server) at(port int) string { return net.JoinHostPort(s.address, strconv.Itoa(port)) }

// opens says whether an account gets in with a password. When the server is full, root is let in
// by another door.
func (s *server) opens(ctx context.Context, user, password, schema string) (bool, error) {
	if password == "" {
		return false, nil
	}
	l := session.Login{Address: s.at(mariadb.Port), User: user, Password: password, Schema: schema}
	ok, err := l.Opens(ctx)
	if session.TroubleOf(err) == session.Full {
		s.full = true
		l.Address = s.at(mariadb.AdminPort)
		ok, err = l.Opens(ctx)
	}
	if session.TroubleOf(err) == session.Limited { // it is asked for its password before
		s.limited = true
		return true, nil
	}
	return ok, err
}

// asRoot logs in with the first password that opens, by the other door if need be.
func (s *server) asRoot(ctx context.Context, passwords ...string) (*session.Session, error) {
	var last error
	for _, password := range passwords {
		if password == "" {
			continue
		}
		l := session.Login{Address: s.at(mariadb.Port), User: session.Root, Password: password}
		in, err := l.Open(ctx)
		if session.TroubleOf(err) == session.Full {
			l.Address = s.at(mariadb.AdminPort)
			in, err = l.Open(ctx)
		}
		if err == nil {
			return in, nil
		}
		if last = err; session.TroubleOf(err) != session.Denied {
			return nil, err // another password would not help
		}
	}
	return nil, last
}
