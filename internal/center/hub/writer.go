package hub

import (
	"fmt"
	"net/http"
	"time"
)

// writer gathers what is sent into as few writes as possible. After an error it does nothing.
type writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	hub     *Hub
	// buffer is held only while something waits in it, since most clients have nothing to be
	// told most of the time.
	buffer *[chunk]byte
	n      int
	// unsent says that net/http may hold some of what was written.
	unsent bool
	err    error
	// expired says that the client did not take a write in time.
	expired bool
}

func (h *Hub) newWriter(w http.ResponseWriter) (*writer, error) {
	o := &writer{w: w, control: http.NewResponseController(w), hub: h}
	if err := o.control.SetWriteDeadline(time.Time{}); err != nil {
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
	o.unsent = true
}

func (o *writer) addf(format string, args ...any) { o.add(fmt.Appendf(nil, format, args...)) }

func (o *writer) add(b []byte) {
	if len(b) > chunk {
		o.timed(func() error { return o.write(b) })
		return
	}
	o.room(len(b))
	o.n += copy(o.buffer[o.n:], b)
}

func (o *writer) addString(s string) {
	o.room(len(s))
	o.n += copy(o.buffer[o.n:], s)
}

// room makes place for n bytes, which are not more than a chunk.
func (o *writer) room(n int) {
	if o.n+n > chunk {
		o.timed(func() error { return o.write(nil) })
	}
	if o.buffer == nil {
		o.buffer, _ = o.hub.buffers.Get().(*[chunk]byte)
	}
}

// write writes what was gathered, and then what is too large to be.
func (o *writer) write(large []byte) error {
	gathered := o.n
	o.n, o.unsent = 0, true
	if gathered > 0 {
		if _, err := o.w.Write(o.buffer[:gathered]); err != nil {
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
	if o.n == 0 && !o.unsent {
		return false
	}
	o.timed(func() error {
		if err := o.write(nil); err != nil {
			return err
		}
		return o.control.Flush()
	})
	o.unsent = false
	o.release()
	return true
}

// timed gives one write its time. The deadline is one of the kernel, so it goes by the real
// clock. It is lifted again, because over HTTP/2 one that passes ends a stream that is only
// silent; after an error it stays, so that net/http does not wait to say goodbye.
func (o *writer) timed(write func() error) {
	if o.err != nil {
		o.n = 0
		return
	}
	timeout := o.hub.options.WriteTimeout
	began := time.Now()
	if o.err = o.control.SetWriteDeadline(began.Add(timeout)); o.err != nil {
		return
	}
	if o.err = write(); o.err != nil {
		o.expired = time.Since(began) >= timeout
		return
	}
	o.err = o.control.SetWriteDeadline(time.Time{})
}

func (o *writer) release() {
	if o.buffer != nil {
		o.hub.buffers.Put(o.buffer)
		o.buffer, o.n = nil, 0
	}
}
