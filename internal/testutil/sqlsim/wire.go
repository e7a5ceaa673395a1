package sqlsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
)

// The commands that matter.
const (
	comQuit  = 0x01
	comQuery = 0x03
	comPing  = 0x0e
)

// Capabilities: the protocol of this century, passwords by challenge, a schema at login.
const (
	withSchema     = 0x00000008
	protocol41     = 0x00000200
	transactions   = 0x00002000
	secure         = 0x00008000
	pluginAuth     = 0x00080000
	lengthEncoded  = 0x00200000
	capabilities   = 1 | withSchema | protocol41 | transactions | secure | pluginAuth
	autocommit     = 0x0002
	utf8           = 45
	maxPacket      = 1 << 20
	nativePassword = "mysql_native_password"
)

// wire reads and writes packets.
type wire struct {
	net.Conn
	seq byte
}

func (w *wire) read() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(w, head[:]); err != nil {
		return nil, err
	}
	n := int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if n > maxPacket {
		return nil, errors.New("a packet that is too long")
	}
	w.seq = head[3] + 1
	content := make([]byte, n)
	_, err := io.ReadFull(w, content)
	return content, err
}

func (w *wire) write(content []byte) error {
	head := []byte{byte(len(content)), byte(len(content) >> 8), byte(len(content) >> 16), w.seq}
	w.seq++
	_, err := w.Write(append(head, content...))
	return err
}

func greeting(version string, scramble []byte) []byte {
	var b bytes.Buffer
	b.WriteByte(10)
	b.WriteString(version + "\x00")
	b.Write([]byte{1, 0, 0, 0})
	b.Write(scramble[:8])
	b.WriteByte(0)
	_ = binary.Write(&b, binary.LittleEndian, uint16(capabilities&0xffff))
	b.WriteByte(utf8)
	_ = binary.Write(&b, binary.LittleEndian, uint16(autocommit))
	_ = binary.Write(&b, binary.LittleEndian, uint16(capabilities>>16))
	b.WriteByte(byte(len(scramble) + 1))
	b.Write(make([]byte, 10))
	b.Write(scramble[8:])
	b.WriteByte(0)
	b.WriteString(nativePassword + "\x00")
	return b.Bytes()
}

// loginRequest is who wants to get in.
type loginRequest struct {
	user, schema string
	token        []byte
}

func readLogin(content []byte) (r loginRequest, err error) {
	const fixed = 4 + 4 + 1 + 23
	if len(content) < fixed {
		return r, errors.New("a login that is too short")
	}
	flags := binary.LittleEndian.Uint32(content)
	rest := content[fixed:]
	user, rest, ok := bytes.Cut(rest, []byte{0})
	if !ok || len(rest) == 0 {
		return r, errors.New("a login without an answer")
	}
	n := int(rest[0]) // the answer is short, so that its length has one byte either way
	if len(rest) < 1+n {
		return r, errors.New("a login with half an answer")
	}
	r.user, r.token, rest = string(user), rest[1:1+n], rest[1+n:]
	if flags&withSchema != 0 {
		schema, _, _ := bytes.Cut(rest, []byte{0})
		r.schema = string(schema)
	}
	return r, nil
}

var (
	okay = []byte{0, 0, 0, autocommit, 0, 0, 0}
	end  = []byte{0xfe, 0, 0, autocommit, 0}
)

func refusal(code uint16, state, message string) []byte {
	return append([]byte{0xff, byte(code), byte(code >> 8)}, "#"+state+message...)
}

// column answers with rows of one column.
func (w *wire) column(rows ...string) error {
	text := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	var definition []byte
	for _, s := range []string{"def", "", "", "", "x", ""} {
		definition = append(definition, text(s)...)
	}
	definition = append(definition, 0x0c, utf8, 0, 0xff, 0, 0, 0, 0xfd, 0, 0, 0, 0, 0)
	packets := [][]byte{{1}, definition, end}
	for _, row := range rows {
		packets = append(packets, text(row))
	}
	for _, p := range append(packets, end) {
		if err := w.write(p); err != nil {
			return err
		}
	}
	return nil
}
