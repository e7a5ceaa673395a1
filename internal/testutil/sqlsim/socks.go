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
			go n.handle(ctx, c)
		}
	}()
	return n, nil
}

// URL is what ALL_PROXY has to be.
func (n *Network) URL() string { return "socks5://" + n.listener.Addr().String() }

// What SOCKS 5 (RFC 1928) says with numbers.
const (
	socksVersion5        = 5
	socksCommandConnect  = 1
	socksAddressIPv4     = 1
	socksSucceeded       = 0
	socksHostUnreachable = 4
)

// handle leads a client to the server that it asks for.
func (n *Network) handle(ctx context.Context, c net.Conn) {
	address, err := readSOCKSRequest(c)
	if err != nil {
		_ = c.Close()
		return
	}
	server := n.find(ctx, address)
	reply := byte(socksSucceeded)
	if server == nil {
		reply = socksHostUnreachable
	}
	if _, err := c.Write([]byte{socksVersion5, reply, 0, socksAddressIPv4, 0, 0, 0, 0, 0, 0}); err != nil || server == nil {
		_ = c.Close()
		return
	}
	server.serve(c)
}

// readSOCKSRequest is where a client wants to go.
func readSOCKSRequest(c net.Conn) (netip.Addr, error) {
	var header [2]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return netip.Addr{}, err
	}
	if _, err := io.ReadFull(c, make([]byte, header[1])); err != nil { // ways to log in
		return netip.Addr{}, err
	}
	if _, err := c.Write([]byte{socksVersion5, 0}); err != nil {
		return netip.Addr{}, err
	}
	var request [10]byte // version, command, reserved, kind, address, port
	if _, err := io.ReadFull(c, request[:]); err != nil {
		return netip.Addr{}, err
	}
	if request[1] != socksCommandConnect || request[3] != socksAddressIPv4 {
		return netip.Addr{}, errors.New("only connections to IPv4 addresses are played")
	}
	return netip.AddrFrom4([4]byte(request[4:8])), nil
}
