package apibudget

import (
	"encoding/json"
	"fmt"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// describeSome describes the first requests, enough for the lifecycle of one stack.
func describeSome(requests audit.Events) []string {
	const few = 20
	var out []string
	for i := range requests[:min(few, len(requests))] {
		out = append(out, describeRequest(&requests[i]))
	}
	if more := len(requests) - few; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// describeRequest describes a request in one line, with a summary of its body.
func describeRequest(e *audit.Event) string {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %d %s %s", e.Received.Format("15:04:05.000"), e.Verb, path,
		e.ResponseStatus.Code, e.ResponseStatus.Message, bodySummary(e))), " ")
}

// bodySummary summarizes the body of a request.
func bodySummary(e *audit.Event) string {
	switch e.ObjectRef.Resource {
	case "appservices", "appstacks":
		return readySummary(e.RequestObject)
	case "events":
		var event struct {
			Reason, Note string
			Series       struct{ Count int }
		}
		if json.Unmarshal(e.RequestObject, &event) != nil {
			return ""
		}
		return fmt.Sprintf("%s %s (series of %d)", event.Reason, event.Note, max(event.Series.Count, 1))
	}
	return ""
}

// readySummary summarizes the Ready condition in a patch of the status.
func readySummary(patch []byte) string {
	var operations []struct {
		Path  string
		Value json.RawMessage
	}
	if json.Unmarshal(patch, &operations) != nil {
		return ""
	}
	for _, op := range operations {
		var status appsapi.AppStackStatus // also decodes the status of other kinds, which have no components
		if op.Path != "/status" || json.Unmarshal(op.Value, &status) != nil {
			continue
		}
		for _, c := range status.Conditions {
			if c.Type == appsapi.ConditionReady {
				return fmt.Sprintf("Ready=%s %s: %s %s", c.Status, c.Reason, c.Message, healthSummary(status.Components))
			}
		}
	}
	return ""
}

func healthSummary(components []appsapi.ComponentStatus) string {
	var parts []string
	for _, c := range components {
		parts = append(parts, c.Name+" "+c.Health)
	}
	return strings.Join(parts, ", ")
}
