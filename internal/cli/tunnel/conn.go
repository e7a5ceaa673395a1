package tunnel

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

// conn is one connection in a tunnel: a stream with the bytes, and one on which the kubelet says
// what went wrong.
type conn struct {
	in   httpstream.Connection
	data httpstream.Stream
	errs httpstream.Stream
	pod  string

	mu   sync.Mutex
	said error
	once sync.Once
}

var _ net.Conn = &conn{}

func newConn(in httpstream.Connection, pod string, number int) (*conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, port)
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(number))
	errs, err := in.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = errs.Close() // nothing is written to it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := in.CreateStream(headers)
	if err != nil {
		in.RemoveStreams(errs)
		return nil, err
	}
	c := &conn{in: in, data: data, errs: errs, pod: pod}
	go c.listen()
	return c, nil
}

// listen ends the connection when the other side cannot go on: nobody else would.
func (c *conn) listen() {
	message, err := io.ReadAll(io.LimitReader(c.errs, 4<<10))
	if err == nil && len(message) > 0 {
		c.mu.Lock()
		c.said = fmt.Errorf("pod %s does not answer on port %s: %s", c.pod, port, message)
		c.mu.Unlock()
		_ = c.data.Reset()
		// What the kubelet lost once it does not find again in the same tunnel.
		_ = c.in.Close()
	}
}

// why is what the other side said, or else what happened here.
func (c *conn) why(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said != nil {
		return c.said
	}
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	return n, c.why(err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.data.Write(p)
	return n, c.why(err)
}

func (c *conn) Close() error {
	err := errClosed
	c.once.Do(func() {
		// Reset, for Close alone would leave what the center still sends in the way of others.
		_ = c.data.Close()
		err = c.data.Reset()
		_ = c.errs.Reset()
		c.in.RemoveStreams(c.data, c.errs)
	})
	return err
}

// address is a pod.
type address string

func (address) Network() string  { return "portforward" }
func (a address) String() string { return string(a) }

func (c *conn) LocalAddr() net.Addr  { return address("kubectl-holdfast") }
func (c *conn) RemoteAddr() net.Addr { return address(c.pod + ":" + port) }

// Streams have no deadlines; whoever waits too long closes the connection.
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
