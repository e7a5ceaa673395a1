package ui

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/cli/portforward"
)

// proxy forwards requests to the center with the token of the user. It rejects requests of others:
//
//   - Other users of this machine can reach the port but do not know the first path segment, which is
//     random and changes with each start. It is not a cookie, because browsers send cookies to all
//     ports of an address.
//   - Pages of other sites do not know the path either. In case it leaks, requests with another Host
//     (DNS rebinding) or another Origin are rejected.
//   - Only GET and HEAD requests are forwarded: the center is read-only.
type proxy struct {
	host, secret string
	center       http.Handler
}

func newProxy(host string, transport http.RoundTripper) *proxy {
	center, err := url.Parse(portforward.URL)
	if err != nil {
		panic(err) // a constant
	}
	return &proxy{host: host, secret: rand.Text(), center: &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, // flushes event streams immediately
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(center)
			r.Out.Host = center.Host
			// Only the transport authenticates the user.
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(name)
			}
		},
		ModifyResponse: adaptResponse,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				writeError(w, http.StatusBadGateway, "Unavailable", "cannot reach the center: "+err.Error())
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // clients that disconnect are not worth a log line
	}}
}

func (p *proxy) url() string { return "http://" + p.host + "/" + p.secret + "/" }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != p.host {
		writeError(w, http.StatusMisdirectedRequest, "Misdirected", "wrong host; open the address that kubectl holdfast ui printed")
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+p.host {
		writeError(w, http.StatusForbidden, "Forbidden", "requests of other origins are not allowed")
		return
	}
	secret, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(p.secret)) != 1 {
		writeError(w, http.StatusNotFound, "NotFound", "open the complete address that kubectl holdfast ui printed; it changes with each start")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "the center is read-only")
		return
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = "/"+rest, ""
	p.center.ServeHTTP(w, r)
}

// adaptResponse removes headers that do not apply to the local address and replaces status 401.
func adaptResponse(r *http.Response) error {
	r.Header.Del("Strict-Transport-Security") // the proxy serves plain HTTP
	r.Header.Del("Set-Cookie")
	if r.StatusCode != http.StatusUnauthorized {
		return nil
	}
	// On 401 the page would ask for a token, but the proxy provides the token.
	body := errorBody("Unauthenticated",
		"the center rejected the token of your kubeconfig; log in again, then this page continues automatically")
	_ = r.Body.Close()
	r.StatusCode, r.Status = http.StatusBadGateway, ""
	r.Header.Del("WWW-Authenticate")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// errorBody returns an error in the format of the center.
func errorBody(reason, message string) []byte {
	body, _ := json.Marshal(map[string]string{"kind": "Error", "reason": reason, "message": message}) // strings
	return append(body, '\n')
}

func writeError(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(errorBody(reason, message)) // the client can have disconnected
}
