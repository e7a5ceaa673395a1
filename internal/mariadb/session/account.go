package session

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// Root is the account that the operator itself uses.
const Root = "root"

// EnsureAccount makes a schema and an account that has everything in it, if they are not there.
// One that is there keeps its passwords and gets the rights.
func (s *Session) EnsureAccount(ctx context.Context, user, schema, hash string) error {
	if !mariadb.IsHash(hash) {
		return fmt.Errorf("account %s: what it is to have is not the hash of a password", user)
	}
	quoted := quoteAccount(user, "%")
	for _, step := range []struct{ what, statement string }{
		{"create schema " + schema, "CREATE DATABASE IF NOT EXISTS " + quoteName(schema)},
		{"create account " + user, "CREATE USER IF NOT EXISTS " + quoted + " IDENTIFIED BY PASSWORD '" + hash + "'"},
		{"give account " + user + " its schema", "GRANT ALL PRIVILEGES ON " + quoteName(escapePattern(schema)) + ".* TO " + quoted},
	} {
		if err := s.exec(ctx, step.what, step.statement); err != nil {
			return err
		}
	}
	return nil
}

// SetPasswords makes an account take these passwords and no others, wherever it logs in from.
// There can be two. In which order matters to old clients: the first costs them nothing.
func (s *Session) SetPasswords(ctx context.Context, user string, hashes ...string) error {
	var methods []string
	for _, h := range hashes {
		if !mariadb.IsHash(h) {
			return fmt.Errorf("account %s: what it is to have is not the hash of a password", user)
		}
		methods = append(methods, "mysql_native_password USING '"+h+"'")
	}
	identified := "IDENTIFIED VIA " + strings.Join(methods, " OR ")
	switch len(hashes) {
	case 1:
		identified = "IDENTIFIED BY PASSWORD '" + hashes[0] + "'" // which servers before 10.4 know, too
	case 2:
	default:
		return fmt.Errorf("account %s: it can have one password or two, not %d", user, len(hashes))
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

// hosts are where an account may log in from, each of which has passwords of its own.
func (s *Session) hosts(ctx context.Context, user string) ([]string, error) {
	what := "ask for the hosts of account " + user
	rows, err := s.conn.QueryContext(ctx, "SELECT Host FROM mysql.user WHERE User = "+quoteString(user))
	if err != nil {
		return nil, &sessionError{fmt.Errorf("%s: %w", what, err)}
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var host string
		if err := rows.Scan(&host); err != nil {
			return nil, &sessionError{fmt.Errorf("%s: %w", what, err)}
		}
		out = append(out, host)
	}
	if err := rows.Err(); err != nil {
		return nil, &sessionError{fmt.Errorf("%s: %w", what, err)}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("account %s does not exist", user)
	}
	return out, nil
}

func quoteAccount(user, host string) string { return quoteString(user) + "@" + quoteString(host) }

// quoteName quotes the name of a schema.
func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// escapePattern keeps the characters of a name from standing for others: the name of a schema is one in
// a grant.
func escapePattern(s string) string { return strings.NewReplacer(`_`, `\_`, `%`, `\%`).Replace(s) }

// quoteString quotes a string; sessions are opened so that \ is special in it.
func quoteString(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(s) + "'"
}
