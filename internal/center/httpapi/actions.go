package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

// caller acts with the token of who asks, and nothing else.
func (s *Server) caller(r *http.Request) (*actions.Caller, error) {
	_, token, _ := authz.FromContext(r.Context())
	config, err := s.Reviewer.ConfigFor(token)
	if err != nil {
		return nil, err
	}
	return s.Callers.ForConfig(config)
}

// ActionRequest is what somebody wants to be done with an application.
type ActionRequest struct {
	// Component is the part that it is about; empty means all.
	Component string `json:"component,omitempty"`
	// DryRun asks what would happen.
	DryRun bool `json:"dryRun,omitempty"`
	// Replicas are for scale.
	Replicas int32 `json:"replicas,omitempty"`
	// Revision is the one to go back to, 0 the newest healthy one that differs. Seen is the
	// generation that a dry run told: who changed something since is not overwritten.
	Revision           int64 `json:"revision,omitempty"`
	ExpectedGeneration int64 `json:"seen,omitempty"`
}

// performAction does something with an application.
func (s *Server) performAction(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType", "send JSON, with the header Content-Type: application/json; {} is enough for most")
		return
	}
	var req ActionRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		writeError(w, http.StatusBadRequest, "BadRequest", "the body is not what /openapi/v1 describes: "+err.Error())
		return
	}
	c, err := s.caller(r)
	if err != nil {
		writeActionError(w, r, err)
		return
	}
	ref := actions.Ref{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	o := actions.EditOptions{Component: req.Component, DryRun: req.DryRun}
	var out any
	switch verb := r.PathValue("verb"); verb {
	case "restart":
		out, err = c.Restart(r.Context(), ref, o)
	case "suspend":
		out, err = c.Suspend(r.Context(), ref, o)
	case "resume":
		out, err = c.Resume(r.Context(), ref, o)
	case "scale":
		out, err = c.Scale(r.Context(), ref, req.Replicas, o)
	case "rollback":
		out, err = c.Rollback(r.Context(), ref, actions.RollbackOptions{Revision: req.Revision, ExpectedGeneration: req.ExpectedGeneration, DryRun: req.DryRun})
	default:
		writeError(w, http.StatusNotFound, "NotFound", verb+" is nothing that can be done; use restart, suspend, resume, scale or rollback")
		return
	}
	if err != nil {
		writeActionError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// writeActionError answers an error of the API server, or of what asks it.
func writeActionError(w http.ResponseWriter, r *http.Request, err error) {
	var e *actions.Error
	switch {
	case r.Context().Err() != nil: // nobody waits for an answer
	case errors.As(err, &e):
		writeError(w, e.HTTPStatus(), string(e.Reason), e.Message)
	default:
		authz.WriteAuthError(w, r, err)
	}
}

// object is one object as the API server has it now, as far as it may be shown.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	c, err := s.caller(r)
	if err != nil {
		writeActionError(w, r, err)
		return
	}
	q := r.URL.Query()
	version := q.Get("version")
	if version == "" {
		version = "v1"
	}
	resource := schema.GroupVersionResource{Group: q.Get("group"), Version: version, Resource: r.PathValue("resource")}
	o, err := c.Object(r.Context(), resource, q.Get("namespace"), r.PathValue("name"), actions.ObjectOptions{ManagedFields: q.Get("managers") == "true"})
	if err != nil {
		writeActionError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, o)
}

// logs are what the pods of an application, or one pod, write.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	c, err := s.caller(r)
	if err != nil {
		writeActionError(w, r, err)
		return
	}
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(time.Time{}); err != nil {
		writeActionError(w, r, err)
		return
	}
	out := &deadlineWriter{Writer: w, controller: controller}
	output := actions.TextOutput(out, r.URL.Query().Get("timestamps") == "true")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ref := actions.Ref{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := c.Logs(r.Context(), ref, o, output); err != nil && !out.started {
		writeActionError(w, r, err)
	}
}

func logOptions(q url.Values) (o actions.LogOptions, err error) {
	o = actions.LogOptions{Component: q.Get("component"), Container: q.Get("container"), Follow: q.Get("follow") == "true", Previous: q.Get("previous") == "true"}
	if t := q.Get("tail"); t != "" {
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return o, errors.New("tail=" + t + " is not a number of lines")
		}
		o.Tail = &n
	}
	if t := q.Get("since"); t != "" {
		if o.Since, err = time.ParseDuration(t); err != nil {
			return o, errors.New("since=" + t + " is not a duration; use one like 5m")
		}
	}
	return o, nil
}

// deadlineWriter writes to who may read slowly, but reads.
type deadlineWriter struct {
	io.Writer
	controller *http.ResponseController
	started    bool
}

// writeTimeout is how long one write may take.
const writeTimeout = 10 * time.Second

func (s *deadlineWriter) Write(p []byte) (int, error) {
	s.started = true
	if err := s.controller.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	n, err := s.Writer.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.controller.Flush()
}
