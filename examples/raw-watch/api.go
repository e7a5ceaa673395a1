package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Events that are not about a state of an object; the others are ADDED and MODIFIED.
const (
	eventDeleted  = "DELETED"
	eventBookmark = "BOOKMARK"
	eventError    = "ERROR"
)

// watchGracePeriod is how much longer than the server we wait for the end of a watch. A connection
// that died without a word, behind a firewall that forgot it, would be silent for ever.
const watchGracePeriod = 10 * time.Second

// api is one resource, reached with plain requests.
type api struct {
	client       *http.Client
	url          *url.URL
	pageSize     int
	watchTimeout time.Duration
}

// newAPI takes certificates and tokens from cfg, and nothing else.
func newAPI(cfg *rest.Config, o options) (*api, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0 // it would be that of a whole watch, too
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("make HTTP client: %w", err)
	}
	host, path, err := rest.DefaultServerURL(cfg.Host, "/apis", appsapi.GroupVersion, true)
	if err != nil {
		return nil, fmt.Errorf("read address of the API server: %w", err)
	}
	u := host.JoinPath(path)
	if o.namespace != "" {
		u = u.JoinPath("namespaces", o.namespace)
	}
	return &api{client: client, url: u.JoinPath("appservices"), pageSize: o.pageSize, watchTimeout: o.watchTimeout}, nil
}

// get makes a request; the caller closes the answer.
func (a *api) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	u := *a.url
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusOK {
		return response.Body, nil
	}
	defer func() { _ = response.Body.Close() }()
	// The API server explains itself in a Status; what stands before it may not.
	var status metav1.Status
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && json.Unmarshal(content, &status) == nil && status.Kind == "Status" {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, fmt.Errorf("the server answers %s", response.Status)
}

// list returns all objects and the version that they are the state at. Without a
// resourceVersion the answer is the latest; with 0 it could be from the past.
func (a *api) list(ctx context.Context) ([]appsapi.AppService, string, error) {
	var items []appsapi.AppService
	query := url.Values{"limit": {strconv.Itoa(a.pageSize)}}
	for {
		page, err := a.listPage(ctx, query)
		if err != nil {
			return nil, "", err // 410 here: this list took too long; the next one begins anew
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, page.ResourceVersion, nil
		}
		query.Set("continue", page.Continue) // the next page, of the same version
	}
}

func (a *api) listPage(ctx context.Context, query url.Values) (*appsapi.AppServiceList, error) {
	body, err := a.get(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	var page appsapi.AppServiceList
	if err := json.NewDecoder(body).Decode(&page); err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	return &page, nil
}

// watch hands over what happens after a version, until the watch ends. The error says
// whether it ended as planned.
func (a *api) watch(ctx context.Context, version string, handle func(eventType string, app *appsapi.AppService)) error {
	ctx, cancel := context.WithTimeout(ctx, a.watchTimeout+watchGracePeriod)
	defer cancel()
	body, err := a.get(ctx, url.Values{
		"watch":               {"true"},
		"resourceVersion":     {version},
		"allowWatchBookmarks": {"true"},
		"timeoutSeconds":      {strconv.Itoa(int(a.watchTimeout.Seconds()))},
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer func() { _ = body.Close() }()
	// One JSON document after the other, for as long as the answer lasts.
	for decoder := json.NewDecoder(body); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) {
			return nil // the server's end, between two events
		}
		if err != nil {
			return fmt.Errorf("read event: %w", err) // cut, perhaps in the middle of one
		}
		if event.Type == eventError {
			// The answer began with 200: this is the only place left for a refusal.
			var status metav1.Status
			if err := json.Unmarshal(event.Object, &status); err != nil {
				return fmt.Errorf("read error: %w", err)
			}
			return &apierrors.StatusError{ErrStatus: status}
		}
		var app appsapi.AppService
		if err := json.Unmarshal(event.Object, &app); err != nil {
			return fmt.Errorf("read %s: %w", event.Type, err)
		}
		handle(event.Type, &app)
	}
}
