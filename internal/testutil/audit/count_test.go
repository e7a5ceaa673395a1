package audit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func event(user, verb, resource string, code int32) Event {
	return Event{
		Stage: StageComplete, Verb: verb, User: User{Username: user},
		ObjectRef: ObjectRef{Resource: resource, Namespace: "shop"}, ResponseStatus: ResponseStatus{Code: code},
	}
}

func TestResource(t *testing.T) {
	tests := map[string]struct {
		event Event
		want  string
	}{
		"core":        {Event{ObjectRef: ObjectRef{Resource: "pods"}}, "pods"},
		"group":       {Event{ObjectRef: ObjectRef{Resource: "deployments", APIGroup: "apps"}}, "deployments.apps"},
		"subresource": {Event{ObjectRef: ObjectRef{Resource: "deployments", APIGroup: "apps", Subresource: "scale"}}, "deployments.apps/scale"},
		"no object":   {Event{RequestURI: "/readyz?verbose"}, "/readyz"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.event.Resource(); got != tc.want {
				t.Errorf("Resource() = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestIsWrite(t *testing.T) {
	tests := map[string]struct {
		event Event
		want  bool
	}{
		"create":      {Event{Verb: "create", ObjectRef: ObjectRef{Resource: "pods"}}, true},
		"status":      {Event{Verb: "patch", ObjectRef: ObjectRef{Resource: "pods", Subresource: "status"}}, true},
		"delete many": {Event{Verb: "deletecollection", ObjectRef: ObjectRef{Resource: "pods"}}, true},
		"watch":       {Event{Verb: "watch", ObjectRef: ObjectRef{Resource: "pods"}}, false},
		"question": {Event{Verb: "create", ObjectRef: ObjectRef{
			Resource: "subjectaccessreviews", APIGroup: "authorization.k8s.io"}}, false},
		"token":   {Event{Verb: "create", ObjectRef: ObjectRef{Resource: "serviceaccounts", Subresource: "token"}}, false},
		"dry run": {Event{Verb: "patch", RequestURI: "/api/v1/pods/a?dryRun=All&force=true", ObjectRef: ObjectRef{Resource: "pods"}}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.event.IsWrite(); got != tc.want {
				t.Errorf("Write() = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestFilters(t *testing.T) {
	status := event("anna", "update", "pods", 200)
	status.ObjectRef.Subresource = "status"
	all := Events{event("anna", "create", "pods", 201), event("bob", "list", "pods", 200), status, event("anna", "get", "secrets", 404)}

	tests := map[string]struct {
		got  Events
		want Events
	}{
		"writes":         {all.Writes(), Events{all[0], all[2]}},
		"reads":          {all.Reads(), Events{all[1], all[3]}},
		"by":             {all.By("bob"), Events{all[1]}},
		"by two":         {all.By("bob", "anna"), all},
		"of":             {all.Of("pods"), Events{all[0], all[1], all[2]}},
		"of subresource": {all.Of("pods/status"), Events{all[2]}},
		"in":             {all.In("shop"), all},
		"in another":     {all.In("bank"), nil},
		"chain":          {all.By("anna").Of("pods").Writes(), Events{all[0], all[2]}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCount(t *testing.T) {
	started, ended, running := event("bob", "watch", "pods", 200), event("bob", "watch", "pods", 200), event("bob", "watch", "pods", 200)
	started.Stage, running.Stage = StageStarted, StageStarted
	started.AuditID, ended.AuditID, running.AuditID = "w1", "w1", "w2"
	panicked := event("bob", "create", "pods", 500)
	panicked.Stage = StagePanic

	got := Events{
		started, event("anna", "patch", "pods", 409), event("anna", "create", "pods", 201), event("anna", "patch", "pods", 200),
		running, ended, event("anna", "patch", "pods", 200), panicked, event("bob", "create", "pods", 0),
	}.Count()
	want := Table{
		{User: "anna", Verb: "create", Resource: "pods", Accepted: 1},
		{User: "anna", Verb: "patch", Resource: "pods", Accepted: 2, Rejected: 1},
		{User: "bob", Verb: "create", Resource: "pods", Rejected: 2},
		{User: "bob", Verb: "watch", Resource: "pods", Accepted: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if accepted, rejected := got.Total(); accepted != 5 || rejected != 3 {
		t.Errorf("Total() = %d, %d, want 5, 3", accepted, rejected)
	}
	wantText := `USER  RESOURCE  VERB    ACCEPTED  REFUSED
anna  pods      create  1         0
anna  pods      patch   2         1
bob   pods      create  0         2
bob   pods      watch   2         0
`
	if diff := cmp.Diff(wantText, got.String()); diff != "" {
		t.Error(diff)
	}
}
