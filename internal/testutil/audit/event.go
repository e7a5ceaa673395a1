package audit

import (
	"encoding/json"
	"net/url"
	"strings"
	"time"
)

// The stages of a request that the policy of our control planes lets through.
const (
	StageStarted  = "ResponseStarted"  // of watches only: the answer has begun
	StageComplete = "ResponseComplete" // the answer was sent
	StagePanic    = "Panic"            // the API server gave up

	stageReceived = "RequestReceived" // of deletions only, and never shown as an event
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

// User is who sent the request, as the API server authenticated it.
type User struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups,omitempty"`
}

// ObjectRef names what the request was about. It is empty for requests that are not
// about an object, such as /readyz.
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

// ResponseStatus is the part of the answer that every request has.
type ResponseStatus struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Resource names the kind of object as kubectl does, "deployments.apps/scale", or the
// path of a request that is not about an object.
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

// Accepted says whether the API server did what it was asked.
func (e *Event) Accepted() bool {
	return e.ResponseStatus.Code > 0 && e.ResponseStatus.Code < 400
}

// IsWrite says whether the request could change what the API server stores. Questions
// that are asked by a create, such as a SubjectAccessReview or a token, and dry runs
// could not.
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
