// Package sseclient follows a stream of the application center and holds what it says.
//
// Safety rule: it shows a snapshot when it is complete and not before, and after a cut it
// carries on only from what it has seen whole.
package sseclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// idleTimeout is how long a center that is there says nothing: three heartbeats.
	idleTimeout = 45 * time.Second
	// The center says how long to wait before coming again; it doubles with each failure.
	initialBackoff, maxBackoff = time.Second, 30 * time.Second
)

// Client follows one stream, always of the same topics.
type Client struct {
	// Connect asks for the stream, with the header Last-Event-ID if lastID is not empty.
	Connect func(ctx context.Context, lastID string) (*http.Response, error)
	// OnUpdate is called when entries have changed, once for all that arrived together.
	OnUpdate func()
	// OnDisconnect is called when the stream was cut, with the reason; it will be tried again.
	OnDisconnect func(error)
	// Clock is that of the machine, unless it is set.
	Clock clock.WithDelayedExecution

	mu    sync.Mutex
	state state
}

// StatusError is an answer that will not get better by asking again.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the center answers %d %s: check the address and your rights", e.Code, http.StatusText(e.Code))
}

// Entries are those that are there now. It is nil before the first snapshot is complete.
func (c *Client) Entries() map[ID]Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.state.entries)
}

// Run follows the stream until the context ends or the center refuses.
func (c *Client) Run(ctx context.Context) error {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	backoff, connected := initialBackoff, false
	for {
		retry, err := c.runOnce(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if refused := (*StatusError)(nil); errors.As(err, &refused) {
			return err
		}
		if c.OnDisconnect != nil {
			c.OnDisconnect(err)
		}
		if retry > 0 {
			// It was connected: whatever comes next is a first failure. Of a replica that has
			// crashed the Service learns a moment later, so that one is no reason to wait longer.
			backoff, connected = retry, true
		}
		timer := c.Clock.NewTimer(backoff/2 + rand.N(backoff/2+1))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		if !connected {
			backoff = min(2*backoff, maxBackoff)
		}
		connected = false
	}
}

// runOnce follows one connection and says how long the center asks to wait after it.
func (c *Client) runOnce(ctx context.Context) (retry time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A connection that nobody closed can be dead all the same.
	watchdog := c.Clock.AfterFunc(idleTimeout, cancel)
	defer watchdog.Stop()
	resp, err := c.Connect(ctx, c.lastID())
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if code := resp.StatusCode; code != http.StatusOK {
		if code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
			return 0, fmt.Errorf("the center answers %d %s", code, http.StatusText(code))
		}
		return 0, &StatusError{Code: code}
	}
	changed := false
	for r := bufio.NewReaderSize(resp.Body, 32<<10); ; {
		e, err := readEvent(r)
		if err != nil {
			return retry, err
		}
		watchdog.Reset(idleTimeout)
		if e.retry > 0 {
			retry = e.retry
		}
		updated, err := c.apply(e)
		if err != nil {
			return retry, err
		}
		if changed = changed || updated; changed && r.Buffered() == 0 {
			changed = false
			if c.OnUpdate != nil {
				c.OnUpdate()
			}
		}
	}
}

func (c *Client) lastID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.lastID
}

func (c *Client) apply(e event) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state.apply(e)
}
