// Package sqlsim plays a MariaDB server for tests that need hundreds of them: it speaks the
// protocol, knows accounts with one password or two, and the few statements that the operator
// sends. What is on its volume outlives it. Package mariadbd runs real ones.
package sqlsim

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what mysql_native_password is made of
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Volume is what a server finds when it starts.
type Volume struct {
	mu            sync.Mutex
	hashesByUser  map[string][]string // hashes by user
	ownerBySchema map[string]string   // user by schema
	rows          map[string]int      // by schema
	lastReset     string              // the last time that somebody asked for it
	history       []accountChange
}

// accountChange is what an account became.
type accountChange struct {
	at     time.Time
	user   string
	hashes []string
}

// PasswordPeriod is a time in which an account had these passwords.
type PasswordPeriod struct {
	From, To time.Time
	Hashes   []string
}

// NewVolume has a server set up for the first time.
func NewVolume(rootHash, user, userHash string) *Volume {
	v := &Volume{hashesByUser: map[string][]string{}, ownerBySchema: map[string]string{}, rows: map[string]int{}}
	v.setHashesLocked("root", rootHash)
	if user != "" {
		v.ownerBySchema[user] = user
		v.setHashesLocked(user, userHash)
	}
	return v
}

// setHashesLocked makes an account have these passwords; mu is held, or nobody else knows the volume.
func (v *Volume) setHashesLocked(user string, hashes ...string) {
	v.hashesByUser[user] = hashes
	v.history = append(v.history, accountChange{time.Now(), user, hashes})
}

// PasswordPeriods are what an account had, from the first to the present.
func (v *Volume) PasswordPeriods(user string) []PasswordPeriod {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []PasswordPeriod
	for _, c := range v.history {
		if c.user != user {
			continue
		}
		if len(out) > 0 {
			out[len(out)-1].To = c.at
		}
		out = append(out, PasswordPeriod{From: c.at, To: time.Now(), Hashes: c.hashes})
	}
	return out
}

// Hashes are those of an account.
func (v *Volume) Hashes(user string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.hashesByUser[user])
}

// AddRows adds rows to a schema.
func (v *Volume) AddRows(schema string, rows int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rows[schema] += rows
}

// Rows counts the rows of a schema; -1 when there is none of that name.
func (v *Volume) Rows(schema string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, exists := v.ownerBySchema[schema]; !exists {
		return -1
	}
	return v.rows[schema]
}

// ResetRootPassword gives root a password, once for every time of asking.
func (v *Volume) ResetRootPassword(requestID, hash string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lastReset != requestID {
		v.lastReset = requestID
		v.setHashesLocked("root", hash)
	}
}

// SetHashes makes an account have these passwords, behind everybody's back.
func (v *Volume) SetHashes(user string, hashes ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setHashesLocked(user, hashes...)
}

// Server is a server that runs.
type Server struct {
	Volume  *Volume
	Version string
	// Hangs makes it accept connections and say nothing.
	Hangs bool

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Stop ends it and all its sessions.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close()
	}
}

func (s *Server) track(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	if s.conns == nil {
		s.conns = map[net.Conn]bool{}
	}
	s.conns[c] = true
	return true
}

// Serve speaks with everybody who comes, until the listener is closed.
func (s *Server) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

// serve speaks with one client until one of them has had enough.
func (s *Server) serve(c net.Conn) {
	if !s.track(c) {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
		_ = c.Close()
	}()
	if s.Hangs {
		_, _ = io.Copy(io.Discard, c) // until the client has had enough
		return
	}
	w := &packetConn{Conn: c}
	if s.login(w) != nil {
		return
	}
	for {
		w.seq = 0
		command, err := w.readPacket()
		if err != nil || len(command) == 0 || command[0] == comQuit {
			return
		}
		if err := s.handleCommand(w, command); err != nil {
			return
		}
	}
}

// login greets, and lets in whoever knows a password of the account.
func (s *Server) login(w *packetConn) error {
	scramble := []byte(rand.Text())[:20]
	if err := w.writePacket(handshakePacket(s.Version, scramble)); err != nil {
		return err
	}
	content, err := w.readPacket()
	if err != nil {
		return err
	}
	r, err := parseLogin(content)
	if err != nil {
		return err
	}
	if !s.Volume.authenticates(r, scramble) {
		return s.reject(w, 1045, "28000", fmt.Sprintf("Access denied for user '%s'", r.user))
	}
	if r.schema != "" && !s.Volume.canAccess(r.user, r.schema) {
		return s.reject(w, 1044, "42000", fmt.Sprintf("Access denied for user '%s' to database '%s'", r.user, r.schema))
	}
	return w.writePacket(okPacket)
}

// reject says no, and ends the session.
func (s *Server) reject(w *packetConn, code uint16, state, message string) error {
	_ = w.writePacket(errorPacket(code, state, message))
	return fmt.Errorf("%d %s", code, message)
}

func (v *Volume) authenticates(r loginRequest, scramble []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.hashesByUser[r.user], func(hash string) bool { return tokenMatchesHash(hash, r.token, scramble) })
}

func (v *Volume) canAccess(user, schema string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, exists := v.ownerBySchema[schema]
	return exists && (user == "root" || v.ownerBySchema[schema] == user) || user == "root" && schema == "mysql"
}

// tokenMatchesHash holds the answer to a challenge against a hash.
func tokenMatchesHash(hash string, token, scramble []byte) bool {
	stored, err := hex.DecodeString(strings.TrimPrefix(hash, "*"))
	if err != nil || len(token) != sha1.Size {
		return false
	}
	key := sha1.Sum(append(slices.Clone(scramble), stored...)) //nolint:gosec // as above
	inner := make([]byte, sha1.Size)
	for i := range inner {
		inner[i] = token[i] ^ key[i]
	}
	outer := sha1.Sum(inner) //nolint:gosec // as above
	return slices.Equal(outer[:], stored)
}
