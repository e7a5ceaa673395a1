package session

import (
	"crypto/tls"
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// ErrorKind is why a request to a server failed.
type ErrorKind string

// Kinds of errors.
const (
	// AccessDenied means that the server rejects the password.
	AccessDenied ErrorKind = "Denied"
	// TooManyConnections means that all connections of the server are used.
	TooManyConnections ErrorKind = "Full"
	// UserConnectionLimit means that the password is valid, but the account has reached its
	// connection limit.
	UserConnectionLimit ErrorKind = "Limited"
	// StatementRejected means that the server rejects a statement.
	StatementRejected ErrorKind = "Refused"
	// Unreachable means that the server does not respond: it is down, starting, hanging or blocked
	// by the network.
	Unreachable ErrorKind = "Silent"
	// ProtocolViolation means that the server sends what no MariaDB server sends: it is another
	// program, or an attack.
	ProtocolViolation ErrorKind = "Violation"
	// UntrustedServer means that the server cannot prove that it is the server of the database.
	UntrustedServer ErrorKind = "Untrusted"
)

// Error numbers of the server by kind. They are stable.
var (
	accessDeniedCodes = []uint16{
		1044, // no privilege on the schema
		1045, // wrong password
		1049, // no such schema; it is created again with the account
		1130, // not allowed from this host
		1698, // only by unix socket
	}
	userLimitCodes = []uint16{
		1203, // max_user_connections of the server
		1226, // resource limit of the account
	}
)

// errNoTLS is returned by servers without a certificate.
var errNoTLS = errors.New("it does not offer TLS")

// sessionError is an error of the communication with a server. Other errors, for example a missing
// account, do not have this type.
type sessionError struct{ error }

func (f *sessionError) Unwrap() error { return f.error }

// ErrorKindOf returns the kind of an error; "" for no error, and for errors that are not a
// sessionError.
func ErrorKindOf(err error) ErrorKind {
	var serverErr *mysql.MySQLError
	var sessionErr *sessionError
	var sent violation
	var untrusted *tls.CertificateVerificationError
	switch {
	case !errors.As(err, &sessionErr):
		return ""
	case errors.As(err, &sent):
		return ProtocolViolation
	case errors.Is(err, errNoTLS), errors.As(err, &untrusted):
		return UntrustedServer
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
