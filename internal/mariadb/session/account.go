package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// Root is the account of the operator.
const Root = "root"

// EnsureAccount creates a schema and an account with all privileges on it if they are missing. An
// existing account keeps its passwords and gets the privileges.
func (s *Session) EnsureAccount(ctx context.Context, user, schema, hash string) error {
	if !mariadb.IsHash(hash) {
		return fmt.Errorf("account %s: not a password hash", user)
	}
	quoted := quoteAccount(user, "%")
	for _, step := range []struct{ what, statement string }{
		{"create schema " + schema, "CREATE DATABASE IF NOT EXISTS " + quoteName(schema)},
		{"create account " + user, "CREATE USER IF NOT EXISTS " + quoted + " IDENTIFIED BY PASSWORD '" + hash + "'"},
		{"grant account " + user + " its schema", "GRANT ALL PRIVILEGES ON " + quoteName(escapePattern(schema)) + ".* TO " + quoted},
	} {
		if err := s.exec(ctx, step.what, step.statement); err != nil {
			return err
		}
	}
	return nil
}

// SetPasswords makes the server accept only these passwords of an account, from any host. There can
// be two. The order matters to old clients: the first one needs no change of the authentication
// method.
func (s *Session) SetPasswords(ctx context.Context, user string, hashes ...string) error {
	var methods []string
	for _, h := range hashes {
		if !mariadb.IsHash(h) {
			return fmt.Errorf("account %s: not a password hash", user)
		}
		methods = append(methods, "mysql_native_password USING '"+h+"'")
	}
	identified := "IDENTIFIED VIA " + strings.Join(methods, " OR ")
	switch len(hashes) {
	case 1:
		identified = "IDENTIFIED BY PASSWORD '" + hashes[0] + "'" // also supported by servers before 10.4
	case 2:
	default:
		return fmt.Errorf("account %s: can have one or two passwords, not %d", user, len(hashes))
	}
	hosts, err := s.hosts(ctx, user)
	if err != nil {
		return err
	}
	var clauses []string
	for _, host := range hosts {
		clauses = append(clauses, quoteAccount(user, host)+" "+identified)
	}
	return s.exec(ctx, "change the password of "+user, "ALTER USER "+strings.Join(clauses, ", "))
}

// hosts returns the hosts of an account, each of which has its own passwords.
func (s *Session) hosts(ctx context.Context, user string) ([]string, error) {
	out, err := s.query(ctx, "list the hosts of account "+user, "SELECT Host FROM mysql.user WHERE User = "+quoteString(user))
	if err != nil {
		return nil, err
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("account %s does not exist", user)
	}
	return out, nil
}

func quoteAccount(user, host string) string { return quoteString(user) + "@" + quoteString(host) }

// quoteName quotes the name of a schema.
func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// escapePattern escapes wildcards: a grant treats the schema name as a pattern.
func escapePattern(s string) string { return strings.NewReplacer(`_`, `\_`, `%`, `\%`).Replace(s) }

// quoteString quotes a string. Sessions have an sql_mode in which \ is an escape character.
func quoteString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}
