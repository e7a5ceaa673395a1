package sqlsim

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	aUser     = regexp.MustCompile(`'((?:[^']|'')*)'@'[^']*'`)
	aHash     = regexp.MustCompile(`'(\*[0-9A-F]{40})'`)
	aSchema   = regexp.MustCompile("`((?:[^`]|``)*)`")
	aUserText = regexp.MustCompile(`User = '((?:[^']|'')*)'`)
)

// answer does what a command says.
func (s *Server) answer(w *wire, command []byte) error {
	if command[0] != comQuery {
		return w.write(okay) // a ping, for example
	}
	statement := string(command[1:])
	begins := func(words string) bool { return strings.HasPrefix(statement, words) }
	v := s.Volume
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case statement == "SELECT 1":
		return w.column("1")
	case statement == "SELECT VERSION()":
		return w.column(s.Version)
	case begins("SELECT Host FROM mysql.user"):
		if len(v.accounts[first(aUserText, statement)]) == 0 {
			return w.column()
		}
		return w.column("%", "localhost")
	case begins("SET "):
		return w.write(okay)
	case begins("CREATE DATABASE IF NOT EXISTS "):
		if schema := first(aSchema, statement); v.schemas[schema] == "" {
			v.schemas[schema] = "nobody"
		}
		return w.write(okay)
	case begins("CREATE USER IF NOT EXISTS "):
		if user := first(aUser, statement); len(v.accounts[user]) == 0 {
			v.give(user, hashes(statement)...)
		}
		return w.write(okay)
	case begins("GRANT ALL PRIVILEGES ON "):
		v.schemas[strings.ReplaceAll(first(aSchema, statement), `\_`, "_")] = first(aUser, statement)
		return w.write(okay)
	case begins("ALTER USER "):
		one, _, _ := strings.Cut(statement, ", '") // the same for every host
		v.give(first(aUser, one), hashes(one)...)
		return w.write(okay)
	}
	return w.write(refusal(1064, "42000", fmt.Sprintf("sqlsim does not know %q", statement)))
}

func first(pattern *regexp.Regexp, in string) string {
	if m := pattern.FindStringSubmatch(in); m != nil {
		return m[1]
	}
	return ""
}

func hashes(in string) []string {
	var out []string
	for _, m := range aHash.FindAllStringSubmatch(in, -1) {
		out = append(out, m[1])
	}
	return out
}
