package sseclient

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
)

// recordingClock records delays without waiting.
type recordingClock struct {
	clock.RealClock
	delays []time.Duration
}

func (i *recordingClock) NewTimer(d time.Duration) clock.Timer {
	i.delays = append(i.delays, d)
	return i.RealClock.NewTimer(0)
}

// The first failure after a disconnect does not increase the backoff, because the Service may still route to the
// crashed replica. Later failures do.
func TestReconnectBackoff(t *testing.T) {
	c := &recordingClock{}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	client := &Client{Clock: c, Connect: func(context.Context, string) (*http.Response, error) {
		switch tries++; tries {
		case 1:
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("retry: 1000\n\n"))}, nil
		case 6:
			cancel()
		}
		return nil, errors.New("connection refused")
	}}
	if err := client.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	want := []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}
	if len(c.delays) != len(want) {
		t.Fatalf("waited %v", c.delays)
	}
	for i, d := range c.delays {
		if d < want[i]/2 || d > want[i] {
			t.Errorf("delay %d is %s, want %s to %s", i, d, want[i]/2, want[i])
		}
	}
}
