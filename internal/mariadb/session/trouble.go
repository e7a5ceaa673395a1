package session

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Trouble is why a server did not do what it was asked.
type Trouble string

// What kinds of trouble there are.
const (
	// Denied means that it answers, and does not take the password.
	Denied Trouble = "Denied"
	// Full means that it answers, and all its connections are taken.
	Full Trouble = "Full"
	// Limited means that it takes the password, and that the account has all the connections that it may have.
	Limited Trouble = "Limited"
	// Refused means that it answers, and will not do it.
	Refused Trouble = "Refused"
	// Silent means that nobody answers: it is not there, starts, hangs, or cannot be reached.
	Silent Trouble = "Silent"
)

// Errors of the server that mean the same to us. Their numbers never change.
var (
	denied = []uint16{
		1044, // no right to the schema
		1045, // wrong password
		1049, // no such schema, which is made again with the account
		1130, // not from this address
		1698, // only by its socket
	}
	limited = []uint16{
		1203, // by max_user_connections
		1226, // by what the account was given with
	}
)

// failure is an error of speaking to a server. Others, for example that there is no such account, are none
// of its kind.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// TroubleOf says what an error means; "" for none, and for one that is not about speaking to a server.
func TroubleOf(err error) Trouble {
	var said *mysql.MySQLError
	var ours *failure
	switch {
	case !errors.As(err, &ours):
		return ""
	case !errors.As(err, &said):
		return Silent
	case slices.Contains(denied, said.Number):
		return Denied
	case said.Number == 1040:
		return Full
	case slices.Contains(limited, said.Number):
		return Limited
	}
	return Refused
}
