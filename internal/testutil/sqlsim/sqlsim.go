// Package sqlsim simulates a MariaDB server for tests that need hundreds of them: it implements the protocol, accounts
// with one or two passwords, and the statements of the operator. Its volumes outlive servers. Package mariadbd runs real
// servers.
package sqlsim

import (
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what mysql_native_password is made of
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// Volume is the persistent state of a server.
type Volume struct {
	mu            sync.Mutex
	hashesByUser  map[string][]string // by user
	ownerBySchema map[string]string   // user by schema
	rows          map[string]int      // by schema
	lastReset     string              // ID of the last reset request
	history       []accountChange
}

// accountChange is a change of an account's passwords.
type accountChange struct {
	at     time.Time
	user   string
	hashes []string
}

// PasswordPeriod is a period in which an account had these passwords.
type PasswordPeriod struct {
	From, To time.Time
	Hashes   []string
}

// NewVolume initializes the volume of a new server.
func NewVolume(rootHash, user, userHash string) *Volume {
	v := &Volume{hashesByUser: map[string][]string{}, ownerBySchema: map[string]string{}, rows: map[string]int{}}
	v.setHashesLocked("root", rootHash)
	if user != "" {
		v.ownerBySchema[user] = user
		v.setHashesLocked(user, userHash)
	}
	return v
}

// setHashesLocked sets the passwords of an account; mu is held, or the volume is not shared yet.
func (v *Volume) setHashesLocked(user string, hashes ...string) {
	v.hashesByUser[user] = hashes
	v.history = append(v.history, accountChange{time.Now(), user, hashes})
}

// PasswordPeriods returns the passwords of an account over time.
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

// Hashes returns the current password hashes of an account.
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

// Rows returns the number of rows in a schema; -1 if the schema does not exist.
func (v *Volume) Rows(schema string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, exists := v.ownerBySchema[schema]; !exists {
		return -1
	}
	return v.rows[schema]
}

// ResetRootPassword sets the root password, once per request ID.
func (v *Volume) ResetRootPassword(requestID, hash string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.lastReset != requestID {
		v.lastReset = requestID
		v.setHashesLocked("root", hash)
	}
}

// SetHashes sets the passwords of an account, as a change outside Holdfast would.
func (v *Volume) SetHashes(user string, hashes ...string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.setHashesLocked(user, hashes...)
}

// Server is a running server.
type Server struct {
	Volume  *Volume
	Version string
	// Hangs accepts connections, but never answers.
	Hangs bool
	// Attack handles connections instead of this server.
	Attack func(net.Conn)
	// LoadCertificate returns the current content of the certificate files; nil if the server does not offer TLS.
	LoadCertificate func() (*tls.Certificate, error)

	mu          sync.Mutex
	conns       map[net.Conn]bool
	closed      bool
	certificate *tls.Certificate
}

// currentCertificate returns the certificate that was loaded at the start or by FLUSH SSL.
func (s *Server) currentCertificate(reload bool) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.LoadCertificate == nil || s.certificate != nil && !reload {
		return s.certificate, nil
	}
	var err error
	s.certificate, err = s.LoadCertificate()
	return s.certificate, err
}

// Stop stops the server and closes all sessions.
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

// Serve accepts connections until the listener is closed.
func (s *Server) Serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

// serve handles one connection.
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
	if s.Attack != nil {
		s.Attack(c)
		return
	}
	if s.Hangs {
		_, _ = io.Copy(io.Discard, c) // until the client disconnects
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

// login performs the handshake and accepts any current password of the account.
func (s *Server) login(w *packetConn) error {
	scramble := []byte(rand.Text())[:20]
	certificate, err := s.currentCertificate(false)
	if err != nil {
		return s.reject(w, 2026, "HY000", err.Error())
	}
	if err := w.writePacket(handshakePacket(s.Version, scramble, certificate != nil)); err != nil {
		return err
	}
	content, err := w.readPacket()
	if err != nil {
		return err
	}
	if isTLSRequest(content) {
		w.Conn = tls.Server(w.Conn, &tls.Config{Certificates: []tls.Certificate{*certificate}}) //nolint:gosec // a test server
		if content, err = w.readPacket(); err != nil {
			return err
		}
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

// reject sends an error and ends the session.
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

// tokenMatchesHash verifies the response to a challenge.
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
