package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// ports are the ports of one control plane. The controller-manager and the scheduler serve none: tests see their effect.
type ports struct {
	api, etcd, etcdPeer int
}

// Free ports are below the ephemeral port range of the kernel, so that no outgoing connection takes one before the
// server listens.
const (
	firstPort = 20000
	lastPort  = 32000
)

// choosePorts returns three ports from base, or free ports that are reserved until release is called.
func choosePorts(base int) (_ ports, release func(), err error) {
	if base != 0 {
		return ports{api: base, etcd: base + 1, etcdPeer: base + 2}, func() {}, nil
	}
	var locks []*os.File
	release = func() {
		for _, c := range locks {
			_ = c.Close() // releases the lock
		}
	}
	var free [3]int
	for i := range free {
		port, lock, err := reservePort()
		if err != nil {
			release()
			return ports{}, nil, err
		}
		free[i], locks = port, append(locks, lock)
	}
	return ports{api: free[0], etcd: free[1], etcdPeer: free[2]}, release, nil
}

// reservePort returns a port without a listener that no other control plane has reserved. The reservation is a file
// lock, which the kernel releases with the process.
func reservePort() (int, *os.File, error) {
	// One directory per user: users cannot lock files of other users. Ports in use are detected below.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("holdfast-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, nil, err
	}
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort)
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, nil, fmt.Errorf("reserve a port: %w", err)
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if l, err := net.Listen("tcp", loopbackAddress(port)); err == nil {
				return port, lock, l.Close()
			}
		}
		_ = lock.Close()
	}
	return 0, nil, errors.New("find a free port: all candidates are in use")
}
