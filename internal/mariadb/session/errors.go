package session

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// ErrorKind is why a server did not do what it was asked.
type ErrorKind string

// What kinds of trouble there are.
const (
	// AccessDenied means that it answers, and does not take the password.
	AccessDenied ErrorKind = "Denied"
	// TooManyConnections means that it answers, and all its connections are taken.
	TooManyConnections ErrorKind = "Full"
	// UserConnectionLimit means that it takes the password, and that the account has all the connections that it may have.
	UserConnectionLimit ErrorKind = "Limited"
	// StatementRejected means that it answers, and will not do it.
	StatementRejected ErrorKind = "Refused"
	// Unreachable means that nobody answers: it is not there, starts, hangs, or cannot be reached.
	Unreachable ErrorKind = "Silent"
)

// Errors of the server that mean the same to us. Their numbers never change.
var (
	accessDeniedCodes = []uint16{
		1044, // no right to the schema
		1045, // wrong password
		1049, // no such schema, which is made again with the account
		1130, // not from this address
		1698, // only by its socket
	}
	userLimitCodes = []uint16{
		1203, // by max_user_connections
		1226, // by what the account was given with
	}
)

// sessionError is an error of speaking to a server. Others, for example that there is no such account, are none
// of its kind.
type sessionError struct{ error }

func (f *sessionError) Unwrap() error { return f.error }

// ErrorKindOf says what an error means; "" for none, and for one that is not about speaking to a server.
func ErrorKindOf(err error) ErrorKind {
	var serverErr *mysql.MySQLError
	var sessionErr *sessionError
	switch {
	case !errors.As(err, &sessionErr):
		return ""
	case !errors.As(err, &serverErr):
		return Unreachable
	case slices.Contains(accessDeniedCodes, serverErr.Number):
		return AccessDenied
	case serverErr.Number == 1040:
		return TooManyConnections
	case slices.Contains(userLimitCodes, serverErr.Number):
		return UserConnectionLimit
	}
	return StatementRejected
}
