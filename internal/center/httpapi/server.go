// Package httpapi is the HTTP API of the application center.
//
// Safety rule: every response contains only objects that the API server allows the caller to list. Every
// request is limited in size, and nothing is written with the permissions of the center.
package httpapi

import (
	"net/http"
	"time"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/center/activity"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
	"github.com/holdfast-dev/holdfast/internal/center/fairqueue"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/publish"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/center/store"
)

// Server serves the API and the page.
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
	requestSlots  *fairqueue.Slots
}

// maxHeaderBytes and maxBodyBytes limit the size of a request.
const (
	maxHeaderBytes = 16 << 10
	maxBodyBytes   = 64 << 10
)

// Handler returns the handler for the API and the page.
func (s *Server) Handler() http.Handler {
	s.accessHistory = newAccessHistory()
	s.requestSlots = fairqueue.NewSlots(maxRequests, maxRequestsPerTenant, maxQueuedRequests)
	api := http.NewServeMux()
	api.HandleFunc("GET /api/v1/applications", s.limited(s.listApplications))
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}", s.limited(s.application))
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/why", s.limited(s.diagnosis))
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/tree", s.limited(s.tree))
	api.HandleFunc("GET /api/v1/applications/{kind}/{namespace}/{name}/history", s.limited(s.history))
	api.HandleFunc("POST /api/v1/applications/{kind}/{namespace}/{name}/{verb}", s.limited(s.performAction))
	api.HandleFunc("GET /api/v1/logs/{kind}/{namespace}/{name}", s.logs)
	api.HandleFunc("GET /api/v1/objects/{resource}/{name}", s.limited(s.object))
	api.HandleFunc("GET /api/v1/find", s.limited(s.find))
	api.HandleFunc("GET /api/v1/center", s.limited(s.centerStatus))
	api.HandleFunc("GET /api/v1/stream", s.stream)
	api.HandleFunc("/api/", func(w http.ResponseWriter, _ *http.Request) {
		writeError(w, http.StatusNotFound, "NotFound", "unknown path; see /openapi/v1 for the API")
	})
	mux := http.NewServeMux()
	mux.Handle("/api/", s.Reviewer.Middleware(api))
	mux.HandleFunc("GET /openapi/v1", serveOpenAPI)
	mux.HandleFunc("GET /{$}", servePage)
	mux.HandleFunc("GET /page.js", serveScript)
	mux.HandleFunc("GET /page.css", serveStyle)
	return WithSecurityHeaders(mux)
}

// WithSecurityHeaders sets security headers and limits the size of request bodies.
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

// NewHTTPServer returns a server with timeouts against slow clients. It has no WriteTimeout because streams
// are long-lived; they set a deadline for each write.
func NewHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: maxHeaderBytes}
}
