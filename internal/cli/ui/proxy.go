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

// proxy hands requests on to the center, with the token of the user. So it must know who asks:
//
//   - Others on this machine, who can reach the port as well, do not know the first part of the
//     path, which is made anew at every start. A cookie would be sent to every port of this
//     address, and so to whatever else somebody serves here.
//   - A page of another site does not know it either. Should it leak, the Host that the browser
//     sends is that of the page: one that was made to lead here (DNS rebinding) is refused, and so
//     is an Origin other than our own.
//   - The center has only things to read, and nothing but reading is handed on.
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
		Transport: transport, FlushInterval: -1, // a stream is read as it comes
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(center)
			r.Out.Host = center.Host
			// The center hears who asks from the transport alone.
			for _, name := range []string{"Authorization", "Cookie", "Origin", "Referer"} {
				r.Out.Header.Del(name)
			}
		},
		ModifyResponse: adaptResponse,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				writeError(w, http.StatusBadGateway, "Unavailable", "the center cannot be reached: "+err.Error())
			}
		},
		ErrorLog: log.New(io.Discard, "", 0), // a reader that has gone is no news
	}}
}

func (p *proxy) url() string { return "http://" + p.host + "/" + p.secret + "/" }

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Host != p.host {
		writeError(w, http.StatusMisdirectedRequest, "Misdirected", "this is not the address that kubectl holdfast ui has printed")
		return
	}
	if origin := r.Header.Get("Origin"); origin != "" && origin != "http://"+p.host {
		writeError(w, http.StatusForbidden, "Forbidden", "other pages may not ask here")
		return
	}
	secret, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(p.secret)) != 1 {
		writeError(w, http.StatusNotFound, "NotFound", "open the whole address that kubectl holdfast ui has printed; it is another one after every start")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		writeError(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "the center is there to be read")
		return
	}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = "/"+rest, ""
	p.center.ServeHTTP(w, r)
}

// adaptResponse changes what an answer of the center says that is not so here.
func adaptResponse(r *http.Response) error {
	r.Header.Del("Strict-Transport-Security") // this is another address
	r.Header.Del("Set-Cookie")
	if r.StatusCode != http.StatusUnauthorized {
		return nil
	}
	// The page would ask for a token, and it is not the page that has one to show.
	body := errorBody("Unauthenticated", "the center does not accept the token of your kubeconfig; log in again, and this page goes on by itself")
	_ = r.Body.Close()
	r.StatusCode, r.Status = http.StatusBadGateway, ""
	r.Header.Del("WWW-Authenticate")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}

// errorBody has the shape of errors of the center.
func errorBody(reason, message string) []byte {
	body, _ := json.Marshal(map[string]string{"kind": "Error", "reason": reason, "message": message}) // strings
	return append(body, '\n')
}

func writeError(w http.ResponseWriter, code int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(errorBody(reason, message)) // who has gone does not read it
}
