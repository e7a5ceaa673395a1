// Package proxy is a fault-injecting proxy between an operator and a real API server. It numbers the writes of the
// operator and can make any of them fail as a network, an API server or a crash would. It can also serve stale state.
//
// Safety rule: requests without an injected fault are forwarded unchanged.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Write is a mutating request.
type Write struct {
	// Sequence is the number of the write since faults were injected, starting at 1.
	Sequence int
	Verb     string
	// Resource is the resource as kubectl names it, for example "deployments.apps" or
	// "appstacks.apps.holdfast.dev/status".
	Resource string
	// Name is empty for a create, whose name is only in the body, and for objects with generated names.
	Name string
	// Occurrence is the number of this verb for this object since faults were injected, starting at 1.
	Occurrence int
}

// String names a write so that it matches in another run: "apply:deployments.apps/web:2".
func (w Write) String() string {
	object := w.Resource
	if w.Name != "" {
		object += "/" + w.Name
	}
	return fmt.Sprintf("%s:%s:%d", w.Verb, object, w.Occurrence)
}

// Fault is the fault of one write. Its functions are called in this order; the zero value forwards the write.
type Fault struct {
	// BeforeForward is called before the write is forwarded.
	BeforeForward func()
	// SkipForward drops the write.
	SkipForward bool
	// AfterForward is called after the API server responded, before the operator gets the response.
	AfterForward func()
	// Code replaces the status code of the response; 0 keeps it.
	Code int
	// Reset closes the connection instead of a response.
	Reset bool
	// AfterResponse is called after the operator got the response.
	AfterResponse func()
}

// Proxy is the proxy of one operator.
type Proxy struct {
	// Config connects to the API server through the proxy.
	Config *rest.Config

	upstream           *url.URL
	transport          http.RoundTripper
	requestInfoFactory request.RequestInfoFactory
	server             *http.Server
	watches            watchControl
	stale              staleView

	mu          sync.Mutex
	writeCount  int
	occurrences map[Write]int
	faultFor    func(Write) *Fault
}

// Start starts a proxy to the API server of cfg, with the credentials of cfg.
func Start(cfg *rest.Config) (*Proxy, error) {
	upstream, err := url.Parse(cfg.Host)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy: %w", err)
	}
	p := &Proxy{
		Config:   &rest.Config{Host: "http://" + listener.Addr().String(), QPS: -1},
		upstream: upstream, transport: transport,
		requestInfoFactory: request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
	}
	p.InjectFaults(nil)
	p.server = &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(listener) }() // until Stop
	return p, nil
}

// Stop stops the proxy and closes all connections.
func (p *Proxy) Stop() error { return p.server.Close() }

// InjectFaults resets the counters and calls faultFor for each write.
func (p *Proxy) InjectFaults(faultFor func(Write) *Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writeCount, p.occurrences, p.faultFor = 0, map[Write]int{}, faultFor
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	info, err := p.requestInfoFactory.NewRequestInfo(r)
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case info.Verb == "watch":
		p.serveWatch(w, r, resourceOf(info))
	case info.Verb == "list":
		p.serveList(w, r, resourceOf(info))
	case isWrite(info):
		p.serveWrite(w, r, info)
	default:
		p.passThrough(w, r)
	}
}

func isWrite(info *request.RequestInfo) bool {
	switch info.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return info.IsResourceRequest && info.APIGroup != "authentication.k8s.io" && info.APIGroup != "authorization.k8s.io"
	}
	return false
}

func resourceOf(info *request.RequestInfo) string {
	name := info.Resource
	if info.APIGroup != "" {
		name += "." + info.APIGroup
	}
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	return name
}

// recordWrite numbers a write and returns its fault.
func (p *Proxy) recordWrite(r *http.Request, info *request.RequestInfo) *Fault {
	w := Write{Verb: info.Verb, Resource: resourceOf(info), Name: info.Name}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		w.Verb = "apply"
	}
	if info.Resource == "events" || info.Resource == "controllerrevisions" {
		w.Name = "" // a generated name, which differs in every run
	}
	p.mu.Lock()
	p.writeCount++
	p.occurrences[w]++
	w.Occurrence = p.occurrences[w]
	w.Sequence = p.writeCount
	faultFor := p.faultFor
	p.mu.Unlock()
	if faultFor != nil {
		if f := faultFor(w); f != nil {
			return f
		}
	}
	return &Fault{}
}

func (p *Proxy) serveWrite(w http.ResponseWriter, r *http.Request, info *request.RequestInfo) {
	// Read the whole body: a sent write is executed even if the client disconnects.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r = r.WithContext(context.WithoutCancel(r.Context()))
	f := p.recordWrite(r, info)
	callIfSet(f.BeforeForward)
	var response *http.Response
	if !f.SkipForward {
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		if response, err = p.forward(r); err != nil {
			panic(http.ErrAbortHandler)
		}
		defer func() { _ = response.Body.Close() }()
	}
	callIfSet(f.AfterForward)
	switch {
	case f.Reset:
		panic(http.ErrAbortHandler)
	case f.Code != 0:
		writeError(w, f.Code, info)
	case response != nil:
		copyResponse(w, response)
	}
	if f.AfterResponse != nil {
		_ = http.NewResponseController(w).Flush() // the client may have disconnected
		f.AfterResponse()
	}
}

func callIfSet(f func()) {
	if f != nil {
		f()
	}
}

// passThrough forwards a request and its response.
func (p *Proxy) passThrough(w http.ResponseWriter, r *http.Request) {
	response, err := p.forward(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	copyResponse(w, response)
}

func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.RequestURI, out.Host = "", ""
	out.URL.Scheme, out.URL.Host = p.upstream.Scheme, p.upstream.Host
	out.Header.Del("Connection")
	response, err := p.transport.RoundTrip(out)
	if err != nil {
		return nil, errors.Join(errors.New("forward to the API server"), err)
	}
	return response, nil
}

func copyResponse(w http.ResponseWriter, response *http.Response) {
	copyHeader(w, response)
	_, _ = io.Copy(w, response.Body) // the client may have disconnected
}

func copyHeader(w http.ResponseWriter, response *http.Response) {
	for k, v := range response.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(response.StatusCode)
}
