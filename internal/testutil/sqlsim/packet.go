package sqlsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// The commands in use.
const (
	comQuit  = 0x01
	comQuery = 0x03
	comPing  = 0x0e
)

// Capabilities: protocol 4.1, native password authentication, schema at login.
const (
	capConnectWithDB    = 0x00000008
	capProtocol41       = 0x00000200
	capTLS              = 0x00000800
	capTransactions     = 0x00002000
	capSecureConnection = 0x00008000
	capPluginAuth       = 0x00080000
	capPluginAuthLenEnc = 0x00200000
	serverCapabilities  = 1 | capConnectWithDB | capProtocol41 | capTransactions | capSecureConnection | capPluginAuth
	statusAutocommit    = 0x0002
	charsetUTF8MB4      = 45
	maxPacket           = 1 << 20
	authPluginName      = "mysql_native_password"
)

// packetConn reads and writes packets.
type packetConn struct {
	net.Conn
	seq byte
}

func (w *packetConn) readPacket() ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(w, header[:]); err != nil {
		return nil, err
	}
	n := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
	if n > maxPacket {
		return nil, errors.New("packet is too long")
	}
	w.seq = header[3] + 1
	content := make([]byte, n)
	_, err := io.ReadFull(w, content)
	return content, err
}

func (w *packetConn) writePacket(content []byte) error {
	header := []byte{byte(len(content)), byte(len(content) >> 8), byte(len(content) >> 16), w.seq}
	w.seq++
	_, err := w.Write(append(header, content...))
	return err
}

func handshakePacket(version string, scramble []byte, offersTLS bool) []byte {
	capabilities := uint32(serverCapabilities)
	if offersTLS {
		capabilities |= capTLS
	}
	var b bytes.Buffer
	b.WriteByte(10)
	b.WriteString(version + "\x00")
	b.Write([]byte{1, 0, 0, 0})
	b.Write(scramble[:8])
	b.WriteByte(0)
	_ = binary.Write(&b, binary.LittleEndian, uint16(capabilities))
	b.WriteByte(charsetUTF8MB4)
	_ = binary.Write(&b, binary.LittleEndian, uint16(statusAutocommit))
	_ = binary.Write(&b, binary.LittleEndian, uint16(capabilities>>16))
	b.WriteByte(byte(len(scramble) + 1))
	b.Write(make([]byte, 10))
	b.Write(scramble[8:])
	b.WriteByte(0)
	b.WriteString(authPluginName + "\x00")
	return b.Bytes()
}

// loginRequest is the login of a client.
type loginRequest struct {
	user, schema string
	token        []byte
}

// isTLSRequest reports whether a client asks for TLS: it sends the beginning of a login.
func isTLSRequest(content []byte) bool {
	const size = 32
	return len(content) == size && binary.LittleEndian.Uint32(content)&capTLS != 0
}

func parseLogin(content []byte) (r loginRequest, err error) {
	const fixedLength = 4 + 4 + 1 + 23
	if len(content) < fixedLength {
		return r, errors.New("login packet is too short")
	}
	flags := binary.LittleEndian.Uint32(content)
	rest := content[fixedLength:]
	user, rest, ok := bytes.Cut(rest, []byte{0})
	if !ok || len(rest) == 0 {
		return r, errors.New("login packet without an auth response")
	}
	n := int(rest[0]) // the response is short, so that its length has one byte either way
	if len(rest) < 1+n {
		return r, errors.New("login packet with a truncated auth response")
	}
	r.user, r.token, rest = string(user), rest[1:1+n], rest[1+n:]
	if flags&capConnectWithDB != 0 {
		schema, _, _ := bytes.Cut(rest, []byte{0})
		r.schema = string(schema)
	}
	return r, nil
}

var (
	okPacket  = []byte{0, 0, 0, statusAutocommit, 0, 0, 0}
	eofPacket = []byte{0xfe, 0, 0, statusAutocommit, 0}
)

func errorPacket(code uint16, state, message string) []byte {
	return append([]byte{0xff, byte(code), byte(code >> 8)}, "#"+state+message...)
}

// writeRows sends rows of one column.
func (w *packetConn) writeRows(rows ...string) error {
	lengthPrefixed := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	var definition []byte
	for _, s := range []string{"def", "", "", "", "x", ""} {
		definition = append(definition, lengthPrefixed(s)...)
	}
	definition = append(definition, 0x0c, charsetUTF8MB4, 0, 0xff, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0)
	packets := [][]byte{{1}, definition, eofPacket}
	for _, row := range rows {
		packets = append(packets, lengthPrefixed(row))
	}
	for _, p := range append(packets, eofPacket) {
		if err := w.writePacket(p); err != nil {
			return err
		}
	}
	return nil
}
