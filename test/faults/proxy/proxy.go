// Package proxy stands between an operator and a real API server. It numbers what the
// operator writes and can make any of these writes go wrong, in every way in which a
// network, an API server or a crash can; and it can show the operator the past.
//
// Safety rule: what is not told to go wrong is passed on unchanged, so a run without
// faults is a run without a proxy.
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

// Write is a request that could change something.
type Write struct {
	// Sequence counts the writes since the proxy was armed, from 1.
	Sequence int
	// Verb is apply, patch, update, create or delete.
	Verb string
	// Resource is named as kubectl does, "deployments.apps", "appstacks.apps.holdfast.dev/status".
	Resource string
	// Name is empty for a create, which says it in its body only, and for what has another
	// name in every run.
	Name string
	// Occurrence counts the writes of this verb to this object since the proxy was armed, from 1.
	Occurrence int
}

// String names a write so that another run finds the same: "apply:deployments.apps/web:2".
func (w Write) String() string {
	object := w.Resource
	if w.Name != "" {
		object += "/" + w.Name
	}
	return fmt.Sprintf("%s:%s:%d", w.Verb, object, w.Occurrence)
}

// Fault is what goes wrong with one write. Its functions are called in this order; the zero
// value lets the write pass.
type Fault struct {
	// BeforeForward is called before the write is forwarded.
	BeforeForward func()
	// SkipForward writes are not forwarded.
	SkipForward bool
	// AfterForward is called when the API server has answered and the operator has not heard.
	AfterForward func()
	// Code is answered instead of what the API server says; 0 for the truth.
	Code int
	// Reset ends the connection instead of an answer.
	Reset bool
	// AfterResponse is called when the operator has its answer.
	AfterResponse func()
}

// Proxy is a proxy for one operator.
type Proxy struct {
	// Config is how the operator reaches the API server through the proxy.
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

// Start starts a proxy in front of the API server that cfg leads to, as the user of cfg.
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
	go func() { _ = p.server.Serve(listener) }() // ends with Stop
	return p, nil
}

// Stop ends the proxy and everything that goes through it.
func (p *Proxy) Stop() error { return p.server.Close() }

// InjectFaults starts to count anew and lets strike choose what goes wrong with each write.
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

// recordWrite gives a write its number and asks what becomes of it.
func (p *Proxy) recordWrite(r *http.Request, info *request.RequestInfo) *Fault {
	w := Write{Verb: info.Verb, Resource: resourceOf(info), Name: info.Name}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/apply-patch") {
		w.Verb = "apply"
	}
	if info.Resource == "events" || info.Resource == "controllerrevisions" {
		w.Name = "" // made of a time or a UID: another one in every run
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
	// A write that has reached the wire is carried out, whatever becomes of its sender.
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
		_ = http.NewResponseController(w).Flush() // a sender that is gone has no answer
		f.AfterResponse()
	}
}

func callIfSet(f func()) {
	if f != nil {
		f()
	}
}

// passThrough sends a request on and its answer back.
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
	_, _ = io.Copy(w, response.Body) // a reader that is gone needs nothing
}

func copyHeader(w http.ResponseWriter, response *http.Response) {
	for k, v := range response.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(response.StatusCode)
}
