package audit

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// The stages of a request that the audit policy of the control plane includes.
const (
	StageStarted  = "ResponseStarted"  // watches only: the response has started
	StageComplete = "ResponseComplete" // the response is complete
	StagePanic    = "Panic"            // the request handler panicked

	stageReceived = "RequestReceived" // deletions only; never returned as an event
)

// Event is one line of the log: one stage of one request.
type Event struct {
	AuditID        string            `json:"auditID"`
	Stage          string            `json:"stage"`
	RequestURI     string            `json:"requestURI"`
	Verb           string            `json:"verb"`
	User           User              `json:"user"`
	UserAgent      string            `json:"userAgent,omitempty"`
	ObjectRef      ObjectRef         `json:"objectRef,omitzero"`
	ResponseStatus ResponseStatus    `json:"responseStatus,omitzero"`
	RequestObject  json.RawMessage   `json:"requestObject,omitempty"`
	ResponseObject json.RawMessage   `json:"responseObject,omitempty"`
	Received       time.Time         `json:"requestReceivedTimestamp"`
	StageTime      time.Time         `json:"stageTimestamp"`
	Annotations    map[string]string `json:"annotations,omitempty"`
}

// User is the authenticated user of a request.
type User struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups,omitempty"`
}

// ObjectRef is the object of a request. It is empty for requests without an object, such as /readyz.
type ObjectRef struct {
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	APIVersion      string `json:"apiVersion,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Subresource     string `json:"subresource,omitempty"`
}

// ResponseStatus is the status of a response.
type ResponseStatus struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Resource returns the resource as kubectl names it, for example "deployments.apps/scale", or the path of a request
// without an object.
func (e *Event) Resource() string {
	if e.ObjectRef.Resource == "" {
		path, _, _ := strings.Cut(e.RequestURI, "?")
		return path
	}
	name := e.groupResource()
	if e.ObjectRef.Subresource != "" {
		name += "/" + e.ObjectRef.Subresource
	}
	return name
}

func (e *Event) groupResource() string {
	if e.ObjectRef.APIGroup == "" {
		return e.ObjectRef.Resource
	}
	return e.ObjectRef.Resource + "." + e.ObjectRef.APIGroup
}

// Accepted reports whether the request succeeded.
func (e *Event) Accepted() bool {
	return e.ResponseStatus.Code > 0 && e.ResponseStatus.Code < 400
}

// IsWrite reports whether a request can change stored objects. Dry runs and virtual resources that are read with a
// create, such as a SubjectAccessReview or a token, are not writes.
func (e *Event) IsWrite() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	switch e.ObjectRef.APIGroup {
	case "authentication.k8s.io", "authorization.k8s.io":
		return false
	}
	if e.ObjectRef.Resource == "" || e.ObjectRef.Subresource == "token" {
		return false
	}
	return !e.isDryRun()
}

func (e *Event) isDryRun() bool {
	u, err := url.Parse(e.RequestURI)
	return err == nil && u.Query().Get("dryRun") != ""
}
