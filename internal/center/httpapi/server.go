// Package httpapi is the HTTP API of the application center.
//
// Safety rule: every answer is made of what the caller may read, asked of the API server. Nothing
// that is asked for is without a bound, and nothing is written with rights of the center.
package httpapi

import (
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/publish"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/center/store"
)

// Server answers requests.
type Server struct {
	Model    *model.Model
	Store    *store.Store
	Registry *informers.Registry
	Activity *activity.Log
	Hub      *sse.Hub
	Resolver publish.ScopeResolver
	Reviewer *authz.Reviewer
	Callers  *actions.CallerFactory
	Version  string
	Started  time.Time

	accessHistory *accessHistory
}

// maxHeaderBytes and maxBodyBytes bound what a request may bring.
const (
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10
)

// Handler is the whole API.
func (s *Server) Handler() http.Handler {
	s.accessHistory = newAccessHistory()
	api := http.NewServeMux()
	api.HandleFunc("GET /api/v1/applications", s.listApplications)
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}", s.application)
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/why", s.diagnosis)
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/tree", s.tree)
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/history", s.history)
	api.HandleFunc("POST /api/v1/applications/{kind}/{namespace}/{name}/{verb}", s.performAction)
	api.HandleFunc("GET /api/v1/logs/{kind}/{namespace}/{name}", s.logs)
	api.HandleFunc("GET /api/v1/objects/{resource}/{name}", s.object)
	api.HandleFunc("GET /api/v1/find", s.find)
	api.HandleFunc("GET /api/v1/center", s.centerStatus)
	api.HandleFunc("GET /api/v1/stream", s.stream)
	api.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, "NotFound", "there is no such path; /openapi/v1 describes those there are")
	})
	mux := http.NewServeMux()
	mux.Handle("/api/", s.Reviewer.Middleware(api))
	mux.HandleFunc("GET /openapi/v1", serveOpenAPI)
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET /page.js", serveScript)
	mux.HandleFunc("GET /page.css", serveStyle)
	return WithSecurityHeaders(mux)
}

// WithSecurityHeaders sets what browsers and proxies have to keep to, and bounds bodies.
func WithSecurityHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if r.TLS != nil {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		next.ServeHTTP(w, r)
	})
}

// NewHTTPServer serves a handler to people who may be slow, or want it to be. A stream is bounded
// by a deadline for every write of its own.
func NewHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeaderBytes}
}
