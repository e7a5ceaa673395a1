package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/center/actions"
	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

// caller returns a Caller that uses only the token of the request.
func (s *Server) caller(r *http.Request) (*actions.Caller, error) {
	_, token, _ := authz.FromContext(r.Context())
	config, err := s.Reviewer.ConfigFor(token)
	if err != nil {
		return nil, err
	}
	return s.Callers.ForConfig(config)
}

// ActionRequest is the body of an action on an application.
type ActionRequest struct {
	// Component limits the action to one component. Empty means the whole application.
	Component string `json:"component,omitempty"`
	// DryRun previews the action without changing anything.
	DryRun bool `json:"dryRun,omitempty"`
	// Replicas is the desired number of replicas. Only for scale.
	Replicas int32 `json:"replicas,omitempty"`
	// Revision is the target of a rollback; 0 means the newest healthy revision that differs.
	// ExpectedGeneration is the generation returned by a dry run; a rollback of any other generation is
	// rejected, so that it does not overwrite later changes.
	Revision           int64 `json:"revision,omitempty"`
	ExpectedGeneration int64 `json:"expectedGeneration,omitempty"`
}

// performAction runs an action on an application.
func (s *Server) performAction(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, "UnsupportedMediaType",
			"Content-Type must be application/json; send a JSON body, at least {}")
		return
	}
	var req ActionRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&req); err != nil {
		writeError(w, http.StatusBadRequest, "BadRequest", "invalid request body: "+err.Error()+"; see /openapi/v1 for the schema")
		return
	}
	c, err := s.caller(r)
	if err != nil {
		s.writeActionError(w, r, err)
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
		writeError(w, http.StatusNotFound, "NotFound", "unknown action "+verb+"; use restart, suspend, resume, scale or rollback")
		return
	}
	if err != nil {
		s.writeActionError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}

// writeActionError writes an error of the API server or of its client.
func (s *Server) writeActionError(w http.ResponseWriter, r *http.Request, err error) {
	var e *actions.Error
	switch {
	case r.Context().Err() != nil: // the client has disconnected
	case errors.As(err, &e):
		message := e.Message
		if audiences := s.Reviewer.Audiences(); e.Reason == actions.Unauthenticated && len(audiences) > 0 {
			message += "; it needs an audience of the API server in addition to " + strings.Join(audiences, " or ")
		}
		writeError(w, e.HTTPStatus(), string(e.Reason), message)
	default:
		authz.WriteAuthError(w, r, err)
	}
}

// object serves one object, read from the API server and redacted.
func (s *Server) object(w http.ResponseWriter, r *http.Request) {
	c, err := s.caller(r)
	if err != nil {
		s.writeActionError(w, r, err)
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
		s.writeActionError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, o)
}

// logs streams the logs of a pod or of all pods of an application.
func (s *Server) logs(w http.ResponseWriter, r *http.Request) {
	o, err := logOptions(r.URL.Query())
	if err != nil {
		writeError(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	c, err := s.caller(r)
	if err != nil {
		s.writeActionError(w, r, err)
		return
	}
	user, _, _ := authz.FromContext(r.Context())
	release, err := s.Hub.Reserve(user.Name(), user.Tenant())
	if err != nil {
		writeStreamError(w, r, err)
		return
	}
	defer release()
	controller := http.NewResponseController(w)
	if err := controller.SetReadDeadline(time.Time{}); err != nil {
		s.writeActionError(w, r, err)
		return
	}
	out := &deadlineWriter{Writer: w, controller: controller}
	output := actions.TextOutput(out, r.URL.Query().Get("timestamps") == "true")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ref := actions.Ref{Kind: r.PathValue("kind"), Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}
	if err := c.Logs(r.Context(), ref, o, output); err != nil && !out.started {
		s.writeActionError(w, r, err)
	}
}

func logOptions(q url.Values) (o actions.LogOptions, err error) {
	o = actions.LogOptions{Component: q.Get("component"), Container: q.Get("container"), Follow: q.Get("follow") == "true", Previous: q.Get("previous") == "true"}
	if t := q.Get("tail"); t != "" {
		n, err := strconv.ParseInt(t, 10, 64)
		if err != nil {
			return o, errors.New("tail=" + t + " is not a number of lines; use an integer like 100")
		}
		o.Tail = &n
	}
	if t := q.Get("since"); t != "" {
		if o.Since, err = time.ParseDuration(t); err != nil {
			return o, errors.New("since=" + t + " is not a duration; use a duration like 5m")
		}
	}
	return o, nil
}

// deadlineWriter sets a new deadline for every write, so that a slow client is served and a stalled client is not.
type deadlineWriter struct {
	io.Writer
	controller *http.ResponseController
	started    bool
}

// writeTimeout is the timeout of one write.
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
