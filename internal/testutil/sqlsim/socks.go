package sqlsim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// Network is a SOCKS proxy through which programs outside of the cluster reach pod addresses, with ALL_PROXY.
type Network struct {
	listener net.Listener
	// find returns the server at an address, or nil.
	find func(context.Context, netip.Addr) *Server
}

// NewNetwork listens until the context ends.
func NewNetwork(ctx context.Context, find func(context.Context, netip.Addr) *Server) (*Network, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start SOCKS proxy: %w", err)
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

// URL returns the value of ALL_PROXY.
func (n *Network) URL() string { return "socks5://" + n.listener.Addr().String() }

// Constants of SOCKS 5 (RFC 1928).
const (
	socksVersion5        = 5
	socksCommandConnect  = 1
	socksAddressIPv4     = 1
	socksSucceeded       = 0
	socksHostUnreachable = 4
)

// handle connects a client to the requested server.
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

// readSOCKSRequest returns the requested address.
func readSOCKSRequest(c net.Conn) (netip.Addr, error) {
	var header [2]byte
	if _, err := io.ReadFull(c, header[:]); err != nil {
		return netip.Addr{}, err
	}
	if _, err := io.ReadFull(c, make([]byte, header[1])); err != nil { // authentication methods
		return netip.Addr{}, err
	}
	if _, err := c.Write([]byte{socksVersion5, 0}); err != nil {
		return netip.Addr{}, err
	}
	var request [10]byte // version, command, reserved, address type, address, port
	if _, err := io.ReadFull(c, request[:]); err != nil {
		return netip.Addr{}, err
	}
	if request[1] != socksCommandConnect || request[3] != socksAddressIPv4 {
		return netip.Addr{}, errors.New("only connections to IPv4 addresses are supported")
	}
	return netip.AddrFrom4([4]byte(request[4:8])), nil
}
