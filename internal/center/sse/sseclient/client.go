// Package sseclient subscribes to a stream of the application center and stores its entries.
//
// Safety rule: a snapshot is visible only after it is complete. After a disconnect, the client resumes only
// from complete events.
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
	// idleTimeout is the time without data after which a connection counts as dead: three heartbeats.
	idleTimeout = 45 * time.Second
	// The center sets the retry delay, which doubles with each failure.
	initialBackoff, maxBackoff = time.Second, 30 * time.Second
)

// Client subscribes to one stream with fixed topics.
type Client struct {
	// Connect requests the stream, with the Last-Event-ID header if lastID is not empty.
	Connect func(ctx context.Context, lastID string) (*http.Response, error)
	// OnUpdate is called when entries have changed, once per received batch.
	OnUpdate func()
	// OnDisconnect is called with the reason when the stream was interrupted. The client reconnects.
	OnDisconnect func(error)
	// Clock is for tests. Default: the system clock.
	Clock clock.WithDelayedExecution

	mu    sync.Mutex
	state state
}

// StatusError is a response with a status code for which a retry is useless.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("the center returned %d %s: check the address and your permissions", e.Code, http.StatusText(e.Code))
}

// Entries returns the current entries, or nil before the first snapshot is complete.
func (c *Client) Entries() map[ID]Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.state.entries)
}

// Run reads the stream until the context ends or the center rejects the request.
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
			// The client was connected, so reset the backoff. The first failure after that does not increase
			// it: the Service may still route to a crashed replica.
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

// runOnce reads one connection and returns the retry delay that the center requested.
func (c *Client) runOnce(ctx context.Context) (retry time.Duration, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// The watchdog detects dead connections that were not closed.
	watchdog := c.Clock.AfterFunc(idleTimeout, cancel)
	defer watchdog.Stop()
	resp, err := c.Connect(ctx, c.lastID())
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if code := resp.StatusCode; code != http.StatusOK {
		if code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
			return 0, fmt.Errorf("the center returned %d %s", code, http.StatusText(code))
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
