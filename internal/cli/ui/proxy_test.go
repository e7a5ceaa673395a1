package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// centerTransport sends all requests to a test server, with the token of a user.
type centerTransport struct{ server *httptest.Server }

func (c centerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	target, err := url.Parse(c.server.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = target.Scheme, target.Host
	if r.Header.Get("Authorization") == "" { // like the transport of a kubeconfig
		r.Header.Set("Authorization", "Bearer user")
	}
	return http.DefaultTransport.RoundTrip(r)
}

// startProxy starts a proxy in front of a fake center.
func startProxy(t *testing.T, center http.HandlerFunc) *proxy {
	t.Helper()
	backend := httptest.NewServer(center)
	t.Cleanup(backend.Close)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(listener.Addr().String(), centerTransport{backend})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, listener, p) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return p
}

func doRequest(t *testing.T, method, address string, header map[string]string) (code int, body string, responseHeader http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Header
}

// Only requests with the secret path, the right host and no foreign origin are forwarded.
func TestProxyRejectsForeignRequests(t *testing.T) {
	p := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Strict-Transport-Security", "max-age=1")
		w.Header().Set("Set-Cookie", "a=b")
		fmt.Fprintf(w, "%s %s as %s cookie=%q origin=%q host=%s", r.Method, r.URL, r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("Origin"), r.Host)
	})
	_, port, _ := net.SplitHostPort(p.host)
	page := "GET / as Bearer user cookie=\"\" origin=\"\" host=holdfast-center"
	for name, tc := range map[string]struct {
		method, path string
		header       map[string]string
		code         int
		want         string
	}{
		"page":               {path: "/" + p.secret + "/", code: 200, want: page},
		"same origin":        {path: "/" + p.secret + "/", header: map[string]string{"Origin": "http://" + p.host}, code: 200, want: page},
		"API":                {path: "/" + p.secret + "/api/v1/find?image=a%2Fb", code: 200, want: "GET /api/v1/find?image=a%2Fb as Bearer user"},
		"foreign token":      {path: "/" + p.secret + "/", header: map[string]string{"Authorization": "Bearer other", "Cookie": "c=d"}, code: 200, want: page},
		"without the secret": {path: "/", code: 404, want: "open the complete address"},
		"API without secret": {path: "/api/v1/applications", code: 404, want: "open the complete address"},
		"wrong secret":       {path: "/" + strings.Repeat("A", len(p.secret)) + "/", code: 404, want: "open the complete address"},
		"truncated secret":   {path: "/" + p.secret[:10] + "/", code: 404, want: "open the complete address"},
		"no trailing slash":  {path: "/" + p.secret, code: 404, want: "open the complete address"},
		"DNS rebinding":      {path: "/" + p.secret + "/", header: map[string]string{"Host": "evil.example.com:" + port}, code: 421, want: "wrong host"},
		"other host name":    {path: "/" + p.secret + "/", header: map[string]string{"Host": "localhost:" + port}, code: 421, want: "wrong host"},
		"other site":         {path: "/" + p.secret + "/", header: map[string]string{"Origin": "https://evil.example.com"}, code: 403, want: "other origins"},
		"other port":         {path: "/" + p.secret + "/", header: map[string]string{"Origin": "http://127.0.0.1:1"}, code: 403, want: "other origins"},
		"local file":         {path: "/" + p.secret + "/", header: map[string]string{"Origin": "null"}, code: 403, want: "other origins"},
		"POST":               {method: http.MethodPost, path: "/" + p.secret + "/api/v1/applications", code: 405, want: "read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			method := tc.method
			if method == "" {
				method = http.MethodGet
			}
			code, body, header := doRequest(t, method, "http://"+p.host+tc.path, tc.header)
			if code != tc.code || !strings.Contains(body, tc.want) {
				t.Errorf("got %d %s, want %d %s", code, body, tc.code, tc.want)
			}
			if header.Get("Strict-Transport-Security") != "" || header.Get("Set-Cookie") != "" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("headers of the center: %v", header)
			}
		})
	}
	if second := newProxy(p.host, nil); second.secret == p.secret || len(p.secret) < 26 {
		t.Errorf("secret %s is predictable", p.secret)
	}
}

// The page must not ask for a token, because the proxy provides it.
func TestUnauthorizedBecomesBadGateway(t *testing.T) {
	p := startProxy(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
	})
	code, body, _ := doRequest(t, http.MethodGet, p.url()+"api/v1/stream", nil)
	if code != http.StatusBadGateway || !strings.Contains(body, `"message":"the center rejected the token of your kubeconfig; log in again`) {
		t.Errorf("got %d %s", code, body)
	}
}

// Stream events are forwarded immediately, and the stream ends with the command.
func TestStreamIsForwardedAndClosed(t *testing.T) {
	closed := make(chan struct{})
	p := startProxy(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: one\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(closed)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, p.url()+"api/v1/stream", http.NoBody)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil || line != "event: one\n" {
		t.Errorf("got %q, %v", line, err)
	}
	_ = response.Body.Close()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the request to the center was not canceled")
	}
}

// The address must not be a process argument, which other users can read.
func TestOpenBrowserHidesAddress(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	script := "#!/bin/sh\necho \"$*\" >" + dir + "/arguments\nstat -c %a \"$1\" >" + dir + "/mode\ncat \"$1\" >" + dir + "/content\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if name, _ := openCommand("linux"); name != "xdg-open" {
		t.Fatalf("got %s, want xdg-open", name)
	}
	cleanup, err := openBrowser(t.Context(), "http://127.0.0.1:1/secret/")
	if err != nil {
		t.Skipf("no xdg-open here: %v", err)
	}
	read := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(content))
	}
	file := read("arguments")
	if strings.Contains(file, "secret") || read("mode") != "600" || !strings.Contains(read("content"), "url=http://127.0.0.1:1/secret/") {
		t.Errorf("arguments %s, mode %s, content %s", file, read("mode"), read("content"))
	}
	cleanup()
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s was not removed", file)
	}
}
