package session

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// packet is the content of a packet of a server. The driver reads the fields that these methods check without checking
// their bounds. The layouts are those of the MariaDB client/server protocol.
type packet []byte

// First bytes of packets.
const (
	packetOK         = 0x00
	packetAuthSwitch = 0xfe
	packetEnd        = 0xfe
	packetNull       = 0xfb
	packetError      = 0xff
)

// violation is something that no MariaDB server sends to this client.
type violation string

func (v violation) Error() string { return string(v) }

const errMalformed = violation("it sent a malformed packet")

func (p packet) is(first byte) bool { return len(p) > 0 && p[0] == first }

// capabilityTLS is the flag of servers and clients that can use TLS.
const capabilityTLS = 0x0800

// checkGreeting checks the first packet of a server. extendedHeader reports whether headers of results have a second
// field.
func (p packet) checkGreeting() (offersTLS, extendedHeader bool, err error) {
	const (
		versionLimit     = 256
		fixedFields      = 4 + 8 + 1 + 2 + 1 + 2 + 2 + 1 + 6 + 4 // connection, scramble, capabilities, charset, status, ...
		scrambleRest     = 12 + 1
		capabilityOffset = 4 + 8 + 1
		extendedOffset   = fixedFields - 4
		isMySQL          = 1
		cacheMetadata    = 1 << 4
	)
	if !p.is(10) {
		return false, false, violation("it sent a greeting of another protocol")
	}
	version := bytes.IndexByte(p[1:], 0)
	if version < 0 || version > versionLimit {
		return false, false, errMalformed
	}
	fields := p[1+version+1:]
	if len(fields) < fixedFields+scrambleRest {
		return false, false, errMalformed
	}
	capabilities := binary.LittleEndian.Uint16(fields[capabilityOffset:])
	extended := binary.LittleEndian.Uint32(fields[extendedOffset:])
	return capabilities&capabilityTLS != 0, capabilities&isMySQL == 0 && extended&cacheMetadata != 0, nil
}

// checkAuthSwitch accepts the authentication methods that prove the password without revealing it.
func (p packet) checkAuthSwitch() error {
	method, challenge, ok := bytes.Cut(p[1:], []byte{0})
	if !ok {
		return errMalformed
	}
	challenge = bytes.TrimSuffix(challenge, []byte{0})
	required := map[string]int{"mysql_native_password": 20, "client_ed25519": 32}[string(method)]
	switch {
	case required == 0:
		return violation(fmt.Sprintf("it asked for authentication method %.40q", method))
	case len(challenge) < required:
		return errMalformed
	}
	return nil
}

func (p packet) checkError() error {
	const code, state = 2, 6
	if len(p) < 1+code+1 || p[1+code] == '#' && len(p) < 1+code+state {
		return errMalformed
	}
	return nil
}

// checkOK checks a packet that ends a response.
func (p packet) checkOK() error {
	const moreResults = 0x0008
	rest := p[1:]
	for range 2 { // affected rows, last ID
		_, size := rest.integer()
		if size > len(rest) {
			return errMalformed
		}
		rest = rest[size:]
	}
	if len(rest) < 2 || binary.LittleEndian.Uint16(rest)&moreResults != 0 {
		return errMalformed
	}
	return nil
}

// checkResultHeader accepts results with one column. The driver allocates columns before it reads them.
func (p packet) checkResultHeader(extended bool) error {
	const metadataFollows = 1
	switch {
	case !p.is(1):
		return violation("it sent a result that does not have one column")
	case extended && (len(p) < 2 || p[1] != metadataFollows):
		return errMalformed
	}
	return nil
}

func (p packet) checkColumn() error {
	const (
		names       = 6 // catalog, schema, table, original table, name, original name
		fixedFields = 1 + 2 + 4 + 1 + 2 + 1
	)
	rest := p
	for range names {
		length, size := rest.integer()
		if length > len(rest)-size {
			return errMalformed
		}
		rest = rest[size+length:]
	}
	if len(rest) < fixedFields {
		return errMalformed
	}
	return nil
}

// checkRow checks a row of one column.
func (p packet) checkRow() error {
	if length, size := p.integer(); !p.is(packetNull) && length != len(p)-size {
		return errMalformed
	}
	return nil
}

// integer returns the length-encoded integer at the start of a packet, and its size. The size of an incomplete integer
// is larger than the packet. No valid length is larger than the response limit.
func (p packet) integer() (value, size int) {
	switch {
	case p.is(0xfc):
		size = 3
	case p.is(0xfd):
		size = 4
	case p.is(0xfe):
		size = 9
	case p.is(packetNull):
		return 0, 1
	case len(p) == 0 || p.is(packetError):
		return 0, len(p) + 1
	default:
		return int(p[0]), 1
	}
	if size > len(p) {
		return 0, size
	}
	for i := size - 1; i > 0; i-- {
		value = min(value<<8|int(p[i]), responseLimit)
	}
	return value, size
}
