package sqlsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// Network is how a program that runs outside of a cluster gets to addresses of pods: a SOCKS
// proxy, which everybody who dials by ALL_PROXY takes.
type Network struct {
	listener net.Listener
	// find is the server at an address; nil when there is none.
	find func(context.Context, netip.Addr) *Server
}

// NewNetwork listens until the context ends.
func NewNetwork(ctx context.Context, find func(context.Context, netip.Addr) *Server) (*Network, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("play the network of pods: %w", err)
	}
	n := &Network{listener: l, find: find}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.connect(ctx, c)
		}
	}()
	return n, nil
}

// URL is what ALL_PROXY has to be.
func (n *Network) URL() string { return "socks5://" + n.listener.Addr().String() }

// What SOCKS 5 (RFC 1928) says with numbers.
const (
	socks5      = 5
	connect     = 1
	addressIPv4 = 1
	granted     = 0
	unreachable = 4
)

// connect leads a client to the server that it asks for.
func (n *Network) connect(ctx context.Context, c net.Conn) {
	address, err := requested(c)
	if err != nil {
		_ = c.Close()
		return
	}
	server := n.find(ctx, address)
	answer := byte(granted)
	if server == nil {
		answer = unreachable
	}
	if _, err := c.Write([]byte{socks5, answer, 0, addressIPv4, 0, 0, 0, 0, 0, 0}); err != nil || server == nil {
		_ = c.Close()
		return
	}
	server.serve(c)
}

// requested is where a client wants to go.
func requested(c net.Conn) (netip.Addr, error) {
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return netip.Addr{}, err
	}
	if _, err := io.ReadFull(c, make([]byte, head[1])); err != nil { // ways to log in
		return netip.Addr{}, err
	}
	if _, err := c.Write([]byte{socks5, 0}); err != nil {
		return netip.Addr{}, err
	}
	var want [10]byte // version, command, reserved, kind, address, port
	if _, err := io.ReadFull(c, want[:]); err != nil {
		return netip.Addr{}, err
	}
	if want[1] != connect || want[3] != addressIPv4 {
		return netip.Addr{}, errors.New("only connections to IPv4 addresses are played")
	}
	return netip.AddrFrom4([4]byte(want[4:8])), nil
}
