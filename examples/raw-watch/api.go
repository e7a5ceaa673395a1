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

// Event types besides ADDED and MODIFIED.
const (
	eventDeleted  = "DELETED"
	eventBookmark = "BOOKMARK"
	eventError    = "ERROR"
)

// watchGracePeriod is how much longer than the server the client waits for the end of a watch. A
// connection that was dropped silently, for example by a firewall, would otherwise block forever.
const watchGracePeriod = 10 * time.Second

// api accesses one resource with plain requests.
type api struct {
	client       *http.Client
	url          *url.URL
	pageSize     int
	watchTimeout time.Duration
}

// newAPI uses only the address and the credentials of cfg.
func newAPI(cfg *rest.Config, o options) (*api, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0 // it would also limit watches
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("create HTTP client: %w", err)
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

// get sends a request; the caller closes the response body.
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
	// The API server describes errors in a Status; a proxy in front of it may not.
	var status metav1.Status
	content, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && json.Unmarshal(content, &status) == nil && status.Kind == "Status" {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, fmt.Errorf("the server returned %s", response.Status)
}

// list returns all objects and their common resourceVersion. Without a resourceVersion in the query
// the list is current; with 0 it may be outdated.
func (a *api) list(ctx context.Context) ([]appsapi.AppService, string, error) {
	var items []appsapi.AppService
	query := url.Values{"limit": {strconv.Itoa(a.pageSize)}}
	for {
		page, err := a.listPage(ctx, query)
		if err != nil {
			return nil, "", err // 410 means that the list took too long; the next attempt starts over
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, page.ResourceVersion, nil
		}
		query.Set("continue", page.Continue) // the next page of the same version
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

// watch passes the events after a version to handle until the watch ends. The error is nil if the
// server ended it as planned.
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
	// The response is a stream of JSON documents.
	for decoder := json.NewDecoder(body); ; {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		err := decoder.Decode(&event)
		if errors.Is(err, io.EOF) {
			return nil // the server ended the watch between two events
		}
		if err != nil {
			return fmt.Errorf("read event: %w", err) // the connection broke, possibly within an event
		}
		if event.Type == eventError {
			// The response started with status 200, so errors are reported as events.
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
