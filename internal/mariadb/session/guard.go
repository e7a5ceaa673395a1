package session

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"
)

// responseLimit is the number of bytes that a server may send for a login, and per response. The operator reads a few
// rows with one short column.
const responseLimit = 256 << 10

// guard is a connection to a server that is not trusted: users choose the image of a database. The driver trusts
// servers: it allocates what they announce, panics on malformed packets, and encrypts the password with any key that
// they send. So the guard passes on only what a MariaDB server sends to this client.
type guard struct {
	net.Conn
	// stream is the connection, or TLS on it.
	stream net.Conn
	// tls is set until the connection is encrypted.
	tls *tls.Config
	// shift is the number of packets that the guard has sent: the driver counts only its own.
	shift byte
	phase phase
	// awaitsRows is set during a query.
	awaitsRows bool
	// extendedHeader is set if the header of a result has a second field.
	extendedHeader bool
	// budget is the number of bytes that the server may still send.
	budget int
	// unread is the rest of the current packet.
	unread []byte
	// failure is why the guard ended the connection. The driver does not return errors of its connection.
	failure error
}

// phase is what the next packet of the server must be.
type phase int

const (
	greeting phase = iota
	loginResponse
	commandResponse
	columnDefinition
	resultRow
)

// newGuard guards a connection. Without a TLS configuration the connection is not encrypted.
func newGuard(conn net.Conn, config *tls.Config) *guard {
	return &guard{Conn: conn, stream: conn, tls: config, budget: responseLimit}
}

// Write sends a packet of the driver. After the login, every packet is a command.
func (g *guard) Write(packet []byte) (int, error) {
	if g.phase >= commandResponse {
		g.phase, g.budget = commandResponse, responseLimit
		return g.stream.Write(packet)
	}
	out := slices.Clone(packet)
	if g.tls != nil { // the first packet of the login
		if err := g.encrypt(out); err != nil {
			return 0, g.fail(err)
		}
	}
	out[headerSize-1] += g.shift
	return g.stream.Write(out)
}

// encrypt asks the server for TLS before the driver sends its login, and adds TLS to the capabilities in the login. The driver can do the same, but then the guard could not
// read what the server sends.
func (g *guard) encrypt(login []byte) error {
	const requestSize = headerSize + 32 // capabilities, packet size, charset: the beginning of a login
	if len(login) < requestSize {
		return errors.New("log in: the login packet is too short")
	}
	login[headerSize+1] |= capabilityTLS >> 8
	request := slices.Clone(login[:requestSize])
	request[0], request[1], request[2] = requestSize-headerSize, 0, 0
	if _, err := g.Conn.Write(request); err != nil {
		return err
	}
	if err := g.SetDeadline(time.Now().Add(queryTimeout)); err != nil {
		return err
	}
	encrypted := tls.Client(g.Conn, g.tls)
	if err := encrypted.Handshake(); err != nil {
		return fmt.Errorf("start TLS: %w", err)
	}
	g.stream, g.tls, g.shift = encrypted, nil, 1
	return nil
}

// Read returns bytes of checked packets.
func (g *guard) Read(p []byte) (int, error) {
	if g.failure != nil {
		return 0, g.failure
	}
	if len(g.unread) == 0 {
		packet, err := g.readPacket()
		if err != nil {
			return 0, err
		}
		g.unread = packet
	}
	n := copy(p, g.unread)
	g.unread = g.unread[n:]
	return n, nil
}

const headerSize = 4

// readPacket reads the next packet, with its header, and checks it.
func (g *guard) readPacket() ([]byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(g.stream, header[:]); err != nil {
		return nil, err
	}
	size := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if g.budget -= headerSize + size; g.budget < 0 {
		return nil, g.fail(violation(fmt.Sprintf("it sent more than %d KiB in one response", responseLimit>>10)))
	}
	packet := make([]byte, headerSize+size)
	copy(packet, header[:])
	if g.phase == loginResponse {
		packet[headerSize-1] -= g.shift
	}
	if _, err := io.ReadFull(g.stream, packet[headerSize:]); err != nil {
		return nil, err
	}
	if err := g.check(packet[headerSize:]); err != nil {
		return nil, g.fail(err)
	}
	return packet, nil
}

// check checks a packet and determines the next phase.
func (g *guard) check(p packet) (err error) {
	switch {
	case p.is(packetError):
		return p.checkError()
	case g.phase == greeting:
		g.phase = loginResponse
		var offersTLS bool
		if offersTLS, g.extendedHeader, err = p.checkGreeting(); err == nil && g.tls != nil && !offersTLS {
			return errNoTLS
		}
		return err
	case g.phase == loginResponse && p.is(packetAuthSwitch):
		return p.checkAuthSwitch()
	case g.phase == loginResponse && !p.is(packetOK): // for example the key to encrypt the password with
		return violation("it asked for the password in a form that reveals it")
	case g.phase == loginResponse, g.phase == commandResponse && p.is(packetOK):
		g.phase = commandResponse
		return p.checkOK()
	case g.phase == commandResponse && !g.awaitsRows:
		return violation("it sent rows in response to a statement that returns none")
	case g.phase == commandResponse:
		g.phase = columnDefinition
		return p.checkResultHeader(g.extendedHeader)
	case g.phase == columnDefinition:
		g.phase = resultRow
		return p.checkColumn()
	case p.is(packetEnd):
		return p.checkOK()
	}
	return p.checkRow()
}

// fail ends the connection: nothing else that the server sends is read.
func (g *guard) fail(err error) error {
	g.failure = err
	_ = g.Close() // the failure is the error
	return err
}
