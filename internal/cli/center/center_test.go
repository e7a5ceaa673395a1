package center

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/httpapi"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// statusJSON returns a response of the center.
func statusJSON(t *testing.T, extra ...httpapi.Informer) []byte {
	t.Helper()
	lastEvent := now.Add(-3 * time.Second)
	body, err := json.Marshal(httpapi.CenterStatus{
		Version: "v1.2.3", Started: now.Add(-26 * time.Hour), Applications: 12, HistoryEntries: 1, Goroutines: 211, HeapBytes: 61<<20 + 5,
		Hub:    sse.Stats{Clients: 2, Deliveries: 4711, Snapshots: 9, Resumed: 4, ClosedSlow: 1},
		Queue:  model.Queue{Waiting: 3, OldestSeconds: 0.25, Builds: 2000, BuildSeconds: 1.5, LongestSeconds: 0.021},
		Access: authz.Stats{TokenReviews: 5, AccessReviews: 60, Cached: 700},
		Informers: append([]httpapi.Informer{
			{Resource: "pods", Version: "v1", State: "Live", Since: now.Add(-time.Hour), Objects: 4000, LastUpdate: &lastEvent, Events: 81000, Lists: 1, Disconnects: 2},
			{Resource: "appstacks", Group: "apps.holdfast.dev", Version: "v1alpha1", State: "Live", Since: now.Add(-26 * time.Hour), Objects: 12, Lists: 1},
			{Resource: "configmaps", Version: "v1", Namespace: "shop", State: "Live", Since: now.Add(-time.Minute), Objects: 3, Lists: 1},
			{Resource: "gadgets", Group: "example.com", Version: "v1", State: "Forbidden", Since: now.Add(-time.Minute), Message: "the center is not allowed to list gadgets.example.com; add this permission to its ClusterRole"},
		}, extra...),
	})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestPrintStatus(t *testing.T) {
	stale := httpapi.Informer{Resource: "nodes", Version: "v1", State: "Stale", Since: now.Add(-time.Minute), Message: "connection refused"}
	for name, tc := range map[string]struct {
		format string
		extra  []httpapi.Informer
		code   int
	}{
		"fine.txt":   {format: cli.FormatTable},
		"stale.txt":  {format: cli.FormatTable, extra: []httpapi.Informer{stale}, code: 2},
		"wide.txt":   {format: cli.FormatWide},
		"fine.json":  {format: cli.FormatJSON},
		"stale.yaml": {format: cli.FormatYAML, extra: []httpapi.Informer{stale}, code: 2},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := options{Output: cli.Output{Format: tc.format}}
			err := o.printAndCheck(statusJSON(t, tc.extra...), "holdfast-center-1", now, cli.Terminal{Writer: &out})
			if got := cli.ExitCode(err); got != tc.code {
				t.Errorf("exit code %d (%v), want %d", got, err, tc.code)
			}
			golden.Check(t, name, out.String())
		})
	}
}

// Errors contain the message of the center.
func TestFetchErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		code       int
		body, want string
	}{
		"forbidden": {403, `{"kind":"Error","reason":"Forbidden","message":"permission to list nodes is required to see the state of the center; ask a cluster administrator for it"}`,
			"the application center responded with status 403: permission to list nodes is required to see the state of the center; ask a cluster administrator for it"},
		"no center": {502, "<html>", "the application center responded with status 502: Bad Gateway"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.code)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer server.Close()
			target, _ := url.Parse(server.URL)
			_, err := fetch(t.Context(), roundTripperFunc(func(r *http.Request) (*http.Response, error) {
				r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
				return http.DefaultTransport.RoundTrip(r)
			}))
			if err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	_, err := fetch(t.Context(), roundTripperFunc(func(*http.Request) (*http.Response, error) { return nil, errors.New("no pod is ready") }))
	if err == nil || !strings.HasSuffix(err.Error(), "get the status of the application center: no pod is ready") {
		t.Errorf("got %v", err)
	}
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
