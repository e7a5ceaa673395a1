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
	mu       sync.Mutex
	accounts map[string][]string // hashes by user
	schemas  map[string]string   // user by schema
	rows     map[string]int      // by schema
	reset    string              // the last time that somebody asked for it
	past     []change
}

// change is what an account became.
type change struct {
	at     time.Time
	user   string
	hashes []string
}

// Period is a time in which an account had these passwords.
type Period struct {
	From, To time.Time
	Hashes   []string
}

// NewVolume has a server set up for the first time.
func NewVolume(rootHash, user, userHash string) *Volume {
	v := &Volume{accounts: map[string][]string{}, schemas: map[string]string{}, rows: map[string]int{}}
	v.give("root", rootHash)
	if user != "" {
		v.schemas[user] = user
		v.give(user, userHash)
	}
	return v
}

// give makes an account have these passwords; mu is held, or nobody else knows the volume.
func (v *Volume) give(user string, hashes ...string) {
	v.accounts[user] = hashes
	v.past = append(v.past, change{time.Now(), user, hashes})
}

// Periods are what an account had, from the first to the present.
func (v *Volume) Periods(user string) []Period {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []Period
	for _, c := range v.past {
		if c.user != user {
			continue
		}
		if len(out) > 0 {
			out[len(out)-1].To = c.at
		}
		out = append(out, Period{From: c.at, To: time.Now(), Hashes: c.hashes})
	}
	return out
}

// Hashes are those of an account.
func (v *Volume) Hashes(user string) []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.accounts[user])
}

// Write adds rows to a schema.
func (v *Volume) Write(schema string, rows int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rows[schema] += rows
}

// Rows counts the rows of a schema; -1 when there is none of that name.
func (v *Volume) Rows(schema string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, there := v.schemas[schema]; !there {
		return -1
	}
	return v.rows[schema]
}

// Reset gives root a password, once for every time of asking.
func (v *Volume) Reset(asked, hash string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.reset != asked {
		v.reset = asked
		v.give("root", hash)
	}
}

// Set makes an account have these passwords, behind everybody's back.
func (v *Volume) Set(user string, hashes ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.give(user, hashes...)
}

// Server is a server that runs.
type Server struct {
	Volume  *Volume
	Version string
	// Hangs makes it accept connections and say nothing.
	Hangs bool

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Stop ends it and all its sessions.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.open {
		_ = c.Close()
	}
}

func (s *Server) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return false
	}
	if s.open == nil {
		s.open = map[net.Conn]bool{}
	}
	s.open[c] = true
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
	if !s.keep(c) {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
		_ = c.Close()
	}()
	if s.Hangs {
		_, _ = io.Copy(io.Discard, c) // until the client has had enough
		return
	}
	w := &wire{Conn: c}
	if s.login(w) != nil {
		return
	}
	for {
		w.seq = 0
		command, err := w.read()
		if err != nil || len(command) == 0 || command[0] == comQuit {
			return
		}
		if err := s.answer(w, command); err != nil {
			return
		}
	}
}

// login greets, and lets in whoever knows a password of the account.
func (s *Server) login(w *wire) error {
	scramble := []byte(rand.Text())[:20]
	if err := w.write(greeting(s.Version, scramble)); err != nil {
		return err
	}
	content, err := w.read()
	if err != nil {
		return err
	}
	r, err := readLogin(content)
	if err != nil {
		return err
	}
	if !s.Volume.takes(r, scramble) {
		return s.refuse(w, 1045, "28000", fmt.Sprintf("Access denied for user '%s'", r.user))
	}
	if r.schema != "" && !s.Volume.has(r.user, r.schema) {
		return s.refuse(w, 1044, "42000", fmt.Sprintf("Access denied for user '%s' to database '%s'", r.user, r.schema))
	}
	return w.write(okay)
}

// refuse says no, and ends the session.
func (s *Server) refuse(w *wire, code uint16, state, message string) error {
	_ = w.write(refusal(code, state, message))
	return fmt.Errorf("%d %s", code, message)
}

func (v *Volume) takes(r loginRequest, scramble []byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.ContainsFunc(v.accounts[r.user], func(hash string) bool { return opens(hash, r.token, scramble) })
}

func (v *Volume) has(user, schema string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	_, there := v.schemas[schema]
	return there && (user == "root" || v.schemas[schema] == user) || user == "root" && schema == "mysql"
}

// opens holds the answer to a challenge against a hash.
func opens(hash string, token, scramble []byte) bool {
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
