package portforward

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
)

// conn is one connection of a tunnel: a data stream, and an error stream on which the kubelet reports
// failures.
type conn struct {
	parent    httpstream.Connection
	data      httpstream.Stream
	errStream httpstream.Stream
	pod       string

	mu        sync.Mutex
	remoteErr error
	closeOnce sync.Once
}

var _ net.Conn = &conn{}

func newConn(parent httpstream.Connection, pod string, requestID int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(requestID))
	errStream, err := parent.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = errStream.Close() // the client never writes to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := parent.CreateStream(headers)
	if err != nil {
		parent.RemoveStreams(errStream)
		return nil, err
	}
	c := &conn{parent: parent, data: data, errStream: errStream, pod: pod}
	go c.readErrorStream()
	return c, nil
}

// readErrorStream closes the connection when the kubelet reports an error. The data stream alone would
// block.
func (c *conn) readErrorStream() {
	message, err := io.ReadAll(io.LimitReader(c.errStream, 4<<10))
	if err == nil && len(message) > 0 {
		c.mu.Lock()
		c.remoteErr = fmt.Errorf("center Pod %s is not reachable on port %s: %s", c.pod, port, message)
		c.mu.Unlock()
		_ = c.data.Reset()
		// The kubelet does not recover a lost connection within the same tunnel.
		_ = c.parent.Close()
	}
}

// preferRemoteErr returns the error that the kubelet reported, or else the local error.
func (c *conn) preferRemoteErr(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.remoteErr != nil {
		return c.remoteErr
	}
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	return n, c.preferRemoteErr(err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.data.Write(p)
	return n, c.preferRemoteErr(err)
}

func (c *conn) Close() error {
	err := errClosed
	c.closeOnce.Do(func() {
		// Close alone would leave unread data that blocks other streams; Reset discards it.
		_ = c.data.Close()
		err = c.data.Reset()
		_ = c.errStream.Reset()
		c.parent.RemoveStreams(c.data, c.errStream)
	})
	return err
}

// podAddr is the address of a pod.
type podAddr string

func (podAddr) Network() string  { return "portforward" }
func (a podAddr) String() string { return string(a) }

func (c *conn) LocalAddr() net.Addr  { return podAddr("kubectl-holdfast") }
func (c *conn) RemoteAddr() net.Addr { return podAddr(c.pod + ":" + port) }

// Streams have no deadlines; callers with a timeout close the connection.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
