package node

import (
	"errors"
	"io"
	"net"
	"time"
)

// forward hands every connection on l to target, until l is closed.
func forward(l net.Listener, target string) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for example: it passes
			time.Sleep(100 * time.Millisecond)
			continue
		}
		go func() {
			defer func() { _ = conn.Close() }()
			server, err := net.Dial("tcp", target)
			if err != nil {
				return // the client sees a closed connection, as from a dead API server
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

// pipe copies until src ends and passes the end on, so that half-closed streams
// (exec, port-forward) finish what is under way.
func pipe(dst, src net.Conn) {
	_, _ = io.Copy(dst, src)
	if c, ok := dst.(*net.TCPConn); ok {
		_ = c.CloseWrite()
	}
}
