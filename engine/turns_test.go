package engine

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurns lets as many passes compute as there are cores, and one more when one of them is at
// its end, asks the API server, or has taken too long.
func TestTurns(t *testing.T) {
	server := patient{next: &away{}}
	for name, give := range map[string]func(context.Context, func()){
		"is at its end": func(_ context.Context, end func()) { end() },
		"asks": func(ctx context.Context, _ func()) {
			req, err := http.NewRequestWithContext(ctx, http.MethodPatch, "https://server/api", nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := server.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
		},
		"takes long": func(context.Context, func()) { time.Sleep(longestTurn) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer func(all chan struct{}) { turns = all }(turns)
				turns = make(chan struct{}, 2)
				_, first := takeTurn(t.Context())
				ctx, second := takeTurn(t.Context())
				began := make(chan struct{})
				go func() {
					_, third := takeTurn(t.Context())
					close(began)
					third()
				}()
				synctest.Wait()
				select {
				case <-began:
					t.Error("three compute at the same time")
				default:
				}
				give(ctx, second)
				<-began
				first()
				second()
				if len(turns) != 0 {
					t.Errorf("%d still compute, and nobody is there", len(turns))
				}
			})
		})
	}
}

// TestTurnOfNobody does not wait for a turn when there is nothing to compute for any more.
func TestTurnOfNobody(t *testing.T) {
	defer func(all chan struct{}) { turns = all }(turns)
	turns = make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, end := takeTurn(ctx)
	end()
}
