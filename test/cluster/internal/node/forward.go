package node

import (
	"errors"
	"io"
	"net"
	"time"
)

// forward forwards every connection on l to target until l is closed.
func forward(l net.Listener, target string) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // temporary, for example too many open files
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer func() { _ = conn.Close() }()
			server, err := net.Dial("tcp", target)
			if err != nil {
				return // the client gets a closed connection
			}
			defer func() { _ = server.Close() }()
			done := make(chan struct{})
			go func() {
				pipe(server, conn)
				close(done)
			}()
			pipe(conn, server)
			<-done
		}()
	}
}

// pipe copies until src is closed and passes on the half-close, so that half-closed streams (exec, port-forward) are
// completed.
func pipe(dst, src net.Conn) {
	_, _ = io.Copy(dst, src)
	if c, ok := dst.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
}
