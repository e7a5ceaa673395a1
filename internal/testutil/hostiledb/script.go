package hostiledb

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"sync"
	"time"
)

// Operations of a script. A byte of a script is an operation; those marked with n are followed by a length and, if they
// send data, by as many bytes.
const (
	OpGreeting = iota
	OpReceive
	OpOK
	OpError // n bytes of text
	OpSwitchNative
	OpSwitchSHA256
	OpECKey
	OpRSAKey
	OpResultHeader // n columns
	OpColumn
	OpRow    // n bytes
	OpEnd    //
	OpPacket // n bytes
	OpRaw    // n bytes, without a packet header
	OpFlood  // n MiB
	OpRepeat // n times: the last operation
	opCount
)

// receiveTimeout is the maximum time for which a script waits for a packet of the client.
const receiveTimeout = 10 * time.Millisecond

// NewScripted returns a server that runs a script for each client and disconnects.
func NewScripted(script []byte) *Server {
	return &Server{attack: func(s *session) { s.run(script) }}
}

func (s *session) run(script []byte) {
	var last func() bool
	for len(script) > 0 {
		op := script[0] % opCount
		script = script[1:]
		n := 0
		var data []byte
		switch op {
		case OpError, OpRow, OpPacket, OpRaw, OpResultHeader, OpFlood, OpRepeat:
			if len(script) == 0 {
				return
			}
			n, script = int(script[0]), script[1:]
		}
		switch op {
		case OpError, OpRow, OpPacket, OpRaw:
			size := min(n, len(script))
			data, script = script[:size], script[size:]
		}
		if op == OpRepeat {
			for range n {
				if last == nil || !last() {
					return
				}
			}
			continue
		}
		last = func() bool { return s.step(op, n, data) }
		if !last() {
			return
		}
	}
}

var zeros = make([]byte, 1<<20)

// step reports whether the client is still connected.
func (s *session) step(op byte, n int, data []byte) bool {
	switch op {
	case OpGreeting:
		return s.send(s.greeting()...)
	case OpReceive:
		_ = s.conn.SetReadDeadline(time.Now().Add(receiveTimeout)) // an error shows in the next operation
		s.receive()
		return true
	case OpOK:
		return s.send(ok...)
	case OpError:
		return s.send(append([]byte{0xff, 0xd2, 4}, data...)...)
	case OpSwitchNative:
		return s.send([]byte("\xfemysql_native_password\x00" + challenge + "\x00")...)
	case OpSwitchSHA256:
		return s.send([]byte("\xfesha256_password\x00" + challenge + "\x00")...)
	case OpECKey:
		s.sendKey(&ecKey().PublicKey)
		return true
	case OpRSAKey:
		s.sendKey(&rsaKey().PublicKey)
		return true
	case OpResultHeader:
		return s.send(byte(n))
	case OpColumn:
		return s.send(column...)
	case OpRow:
		return s.send(append([]byte{byte(len(data))}, data...)...)
	case OpEnd:
		return s.send(0xfe, 0, 0, 2, 0)
	case OpPacket:
		return s.send(data...)
	case OpRaw:
		return s.write(data)
	case OpFlood:
		for range n {
			if !s.write(zeros) {
				return false
			}
		}
	}
	return true
}

var ecKey = sync.OnceValue(func() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
})

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})
