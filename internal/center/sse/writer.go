package sse

import (
	"fmt"
	"net/http"
	"time"
)

// writer buffers output to reduce the number of writes. After an error it does nothing.
type writer struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	hub        *Hub
	// buffer is taken from the pool only while it contains data, because most clients are idle most of the
	// time.
	buffer   *[writeBufferSize]byte
	buffered int
	// needsFlush means that net/http may have buffered data.
	needsFlush bool
	err        error
	// timedOut means that a write exceeded its deadline.
	timedOut bool
}

func (h *Hub) newWriter(w http.ResponseWriter) (*writer, error) {
	o := &writer{w: w, controller: http.NewResponseController(w), hub: h}
	if err := o.controller.SetWriteDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("stream to a connection without write deadline (a wrapping ResponseWriter may lack Unwrap): %w", err)
	}
	return o, nil
}

func (o *writer) start() {
	header := o.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	// Disable response buffering in proxies such as nginx.
	header.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
	o.needsFlush = true
}

func (o *writer) addf(format string, args ...any) { o.add(fmt.Appendf(nil, format, args...)) }

func (o *writer) add(b []byte) {
	if len(b) > writeBufferSize {
		o.withDeadline(func() error { return o.writeBuffered(b) })
		return
	}
	o.reserve(len(b))
	o.buffered += copy(o.buffer[o.buffered:], b)
}

func (o *writer) addString(s string) {
	o.reserve(len(s))
	o.buffered += copy(o.buffer[o.buffered:], s)
}

// reserve makes room for n bytes. n must not exceed writeBufferSize.
func (o *writer) reserve(n int) {
	if o.buffered+n > writeBufferSize {
		o.withDeadline(func() error { return o.writeBuffered(nil) })
	}
	if o.buffer == nil {
		o.buffer, _ = o.hub.buffers.Get().(*[writeBufferSize]byte)
	}
}

// writeBuffered writes the buffer, and then large, which does not fit into the buffer.
func (o *writer) writeBuffered(large []byte) error {
	pending := o.buffered
	o.buffered, o.needsFlush = 0, true
	if pending > 0 {
		if _, err := o.w.Write(o.buffer[:pending]); err != nil {
			return err
		}
	}
	if large == nil {
		return nil
	}
	_, err := o.w.Write(large)
	return err
}

// flush sends all buffered data. It returns false if there is none.
func (o *writer) flush() bool {
	if o.buffered == 0 && !o.needsFlush {
		return false
	}
	o.withDeadline(func() error {
		if err := o.writeBuffered(nil); err != nil {
			return err
		}
		return o.controller.Flush()
	})
	o.needsFlush = false
	o.release()
	return true
}

// withDeadline runs one write with a deadline. The deadline uses the real clock, because the kernel enforces
// it. It is cleared after the write, because with HTTP/2 an expired deadline also ends an idle stream. It
// stays set after an error, so that net/http does not block when it closes the connection.
func (o *writer) withDeadline(write func() error) {
	if o.err != nil {
		o.buffered = 0
		return
	}
	timeout := o.hub.options.WriteTimeout
	start := time.Now()
	if o.err = o.controller.SetWriteDeadline(start.Add(timeout)); o.err != nil {
		return
	}
	if o.err = write(); o.err != nil {
		o.timedOut = time.Since(start) >= timeout
		return
	}
	o.err = o.controller.SetWriteDeadline(time.Time{})
}

func (o *writer) release() {
	if o.buffer != nil {
		o.hub.buffers.Put(o.buffer)
		o.buffer, o.buffered = nil, 0
	}
}
