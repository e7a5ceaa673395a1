package sqlsim

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	userPattern          = regexp.MustCompile(`'((?:[^']|'')*)'@'[^']*'`)
	hashPattern          = regexp.MustCompile(`'(\*[0-9A-F]{40})'`)
	schemaPattern        = regexp.MustCompile("`((?:[^`]|``)*)`")
	userConditionPattern = regexp.MustCompile(`User = '((?:[^']|'')*)'`)
)

// handleCommand executes a command.
func (s *Server) handleCommand(w *packetConn, command []byte) error {
	if command[0] != comQuery {
		return w.writePacket(okPacket) // a ping, for example
	}
	statement := string(command[1:])
	hasPrefix := func(words string) bool { return strings.HasPrefix(statement, words) }
	v := s.Volume
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case statement == "SELECT 1":
		return w.writeRows("1")
	case statement == "SELECT VERSION()":
		return w.writeRows(s.Version)
	case hasPrefix("SELECT Host FROM mysql.user"):
		if len(v.hashesByUser[firstMatch(userConditionPattern, statement)]) == 0 {
			return w.writeRows()
		}
		return w.writeRows("%", "localhost")
	case statement == "FLUSH SSL":
		if _, err := s.currentCertificate(true); err != nil {
			return w.writePacket(errorPacket(2026, "HY000", err.Error()))
		}
		return w.writePacket(okPacket)
	case hasPrefix("SET "):
		return w.writePacket(okPacket)
	case hasPrefix("CREATE DATABASE IF NOT EXISTS "):
		if schema := firstMatch(schemaPattern, statement); v.ownerBySchema[schema] == "" {
			v.ownerBySchema[schema] = "nobody"
		}
		return w.writePacket(okPacket)
	case hasPrefix("CREATE USER IF NOT EXISTS "):
		if user := firstMatch(userPattern, statement); len(v.hashesByUser[user]) == 0 {
			v.setHashesLocked(user, hashesIn(statement)...)
		}
		return w.writePacket(okPacket)
	case hasPrefix("GRANT ALL PRIVILEGES ON "):
		v.ownerBySchema[strings.ReplaceAll(firstMatch(schemaPattern, statement), `\_`, "_")] = firstMatch(userPattern, statement)
		return w.writePacket(okPacket)
	case hasPrefix("ALTER USER "):
		firstClause, _, _ := strings.Cut(statement, ", '") // the same for every host
		v.setHashesLocked(firstMatch(userPattern, firstClause), hashesIn(firstClause)...)
		return w.writePacket(okPacket)
	}
	return w.writePacket(errorPacket(1064, "42000", fmt.Sprintf("sqlsim does not know %q", statement)))
}

func firstMatch(pattern *regexp.Regexp, in string) string {
	if m := pattern.FindStringSubmatch(in); m != nil {
		return m[1]
	}
	return ""
}

func hashesIn(in string) []string {
	var out []string
	for _, m := range hashPattern.FindAllStringSubmatch(in, -1) {
		out = append(out, m[1])
	}
	return out
}
