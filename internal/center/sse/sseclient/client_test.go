package sseclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse/sseclient"
)

// immediateClock is a clock without retry delays.
type immediateClock struct{ clock.RealClock }

func (q immediateClock) NewTimer(time.Duration) clock.Timer {
	return q.RealClock.NewTimer(time.Millisecond)
}

// Each response is one connection. After the last one the center rejects requests.
func TestClientRun(t *testing.T) {
	const snapshot = "id: R-1\nevent: snapshot\ndata: {\"part\":0,\"complete\":true,\"entries\":[{\"topic\":\"a\",\"key\":\"k\",\"body\":1}]}\n\n"
	for name, tc := range map[string]struct {
		answers []string
		want    map[string]string
		wantIDs []string
	}{
		"refused": {wantIDs: []string{""}},
		"resumed": {
			answers: []string{"retry: 1000\n\n" + snapshot, "id: R-2\nevent: change\ndata: {\"topic\":\"a\",\"key\":\"l\",\"body\":2}\n\n:\n\n"},
			want:    map[string]string{"k": "1", "l": "2"}, wantIDs: []string{"", "R-1", "R-2"},
		},
		"gone": {
			answers: []string{snapshot + "id: R-2\nevent: change\ndata: {\"topic\":\"a\",\"key\":\"k\"}\n\n"},
			want:    map[string]string{}, wantIDs: []string{"", "R-2"},
		},
		"disconnect within an event": {
			answers: []string{snapshot + "id: R-2\nevent: change\ndata: {\"topic\":\"a\""},
			want:    map[string]string{"k": "1"}, wantIDs: []string{"", "R-1"},
		},
		"disconnect within a snapshot": {
			answers: []string{snapshot + "id:\nevent: reset\ndata: {}\n\nid:\nevent: snapshot\ndata: {\"part\":0,\"entries\":[]}\n\n"},
			want:    map[string]string{"k": "1"}, wantIDs: []string{"", ""},
		},
		"nonsense": {
			answers: []string{snapshot + "id: R-2\nevent: change\ndata: {\n\n"},
			want:    map[string]string{"k": "1"}, wantIDs: []string{"", ""},
		},
		"delta before a snapshot": {
			answers: []string{"id: R-2\nevent: change\ndata: {\"topic\":\"a\",\"key\":\"k\",\"body\":1}\n\n"}, wantIDs: []string{"", ""},
		},
		"overload": {answers: []string{"503", snapshot}, want: map[string]string{"k": "1"}, wantIDs: []string{"", "", "R-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var ids []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				ids = append(ids, r.Header.Get("Last-Event-ID"))
				switch n := len(ids) - 1; {
				case n >= len(tc.answers):
					w.WriteHeader(http.StatusForbidden)
				case tc.answers[n] == "503":
					w.WriteHeader(http.StatusServiceUnavailable)
				default:
					fmt.Fprint(w, tc.answers[n])
				}
			}))
			defer server.Close()
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			c := &sseclient.Client{Clock: immediateClock{}, Connect: func(ctx context.Context, lastID string) (*http.Response, error) {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
				if err != nil {
					return nil, err
				}
				req.Header.Set("Last-Event-ID", lastID)
				return server.Client().Do(req)
			}}
			var refused *sseclient.StatusError
			if err := c.Run(ctx); !errors.As(err, &refused) || refused.Code != http.StatusForbidden {
				t.Fatalf("want status 403, got %v", err)
			}
			var got map[string]string
			if all := c.Entries(); all != nil {
				got = map[string]string{}
				for id, e := range all {
					got[id.Key] = string(e.Body)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantIDs, ids); diff != "" {
				t.Errorf("Last-Event-ID (-want +got):\n%s", diff)
			}
		})
	}
}
