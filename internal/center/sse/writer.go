package sse

import (
	"fmt"
	"net/http"
	"time"
)

// writer gathers what is sent into as few writes as possible. After an error it does nothing.
type writer struct {
	w          http.ResponseWriter
	controller *http.ResponseController
	hub        *Hub
	// buffer is held only while something waits in it, since most clients have nothing to be
	// told most of the time.
	buffer   *[writeBufferSize]byte
	buffered int
	// needsFlush says that net/http may hold some of what was written.
	needsFlush bool
	err        error
	// timedOut says that the client did not take a write in time.
	timedOut bool
}

func (h *Hub) newWriter(w http.ResponseWriter) (*writer, error) {
	o := &writer{w: w, controller: http.NewResponseController(w), hub: h}
	if err := o.controller.SetWriteDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("stream to a connection without write deadline (a handler around this one may lack Unwrap): %w", err)
	}
	return o, nil
}

func (o *writer) start() {
	header := o.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	// Proxies that gather answers would keep a stream to themselves.
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

// reserve makes place for n bytes, which are not more than a chunk.
func (o *writer) reserve(n int) {
	if o.buffered+n > writeBufferSize {
		o.withDeadline(func() error { return o.writeBuffered(nil) })
	}
	if o.buffer == nil {
		o.buffer, _ = o.hub.buffers.Get().(*[writeBufferSize]byte)
	}
}

// writeBuffered writes what was gathered, and then what is too large to be.
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

// flush brings all that was added on its way; false if there was nothing.
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

// withDeadline gives one write its time. The deadline is one of the kernel, so it goes by the real
// clock. It is lifted again, because over HTTP/2 one that passes ends a stream that is only
// silent; after an error it stays, so that net/http does not wait to say goodbye.
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
