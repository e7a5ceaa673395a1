package reconcile

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// maxNoteLength keeps the note of an event below the limit of the API server.
const maxNoteLength = 1000

// eventRecord is an event to emit.
type eventRecord struct {
	eventType string // Normal or Warning
	reason    string
	action    string
	note      string
	// component is empty for events about the whole application.
	component string
}

func createdEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentCreated", "Apply", fmt.Sprintf("Created %s of component %q", strings.Join(children, " and "), component), component}
}

func updatedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentUpdated", "Apply", fmt.Sprintf("Updated %s of component %q", strings.Join(children, " and "), component), component}
}

func adoptedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentAdopted", "Adopt", fmt.Sprintf("Adopted %s as component %q", strings.Join(children, " and "), component), component}
}

// fieldsTakenOverEvent reports fields of other managers that were removed.
func fieldsTakenOverEvent(t execute.TakenOver) eventRecord {
	fields := make([]string, len(t.Fields))
	for i, f := range t.Fields {
		fields[i] = f.String()
	}
	return eventRecord{corev1.EventTypeNormal, "FieldsTakenOver", "Apply", fmt.Sprintf(
		"Removed fields of other field managers from %s %s because they conflict with declared fields: %s",
		t.Child.Kind.Kind, t.Child.Name, strings.Join(fields, ", ")), t.Component}
}

func prunedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentPruned", "Prune", fmt.Sprintf("Deleted %s of component %q, no longer declared", strings.Join(children, " and "), component), component}
}

func retainedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "DataRetained", "Retain", fmt.Sprintf(
		"Retained %s of component %q; to delete them permanently, run the removeCommand in status.retained", strings.Join(children, " and "), component), component}
}

func claimReplacedEvent(component string, claims []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ClaimReplaced", "Replace", fmt.Sprintf(
		"Deleted %s of component %q to have it created again: it was never bound to a volume, and storage in the spec has changed",
		strings.Join(claims, " and "), component), component}
}

func readyEvent(message string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentReady", "Rollout", message, ""}
}

func warningEvent(reason, message string) eventRecord {
	return eventRecord{corev1.EventTypeWarning, reason, "Reconcile", message, ""}
}

// plainPasswordEvent is emitted once, when the password is copied into a Secret.
func plainPasswordEvent(p execute.PlainPassword) eventRecord {
	return eventRecord{corev1.EventTypeWarning, "PasswordInSpec", "Create", fmt.Sprintf(
		"Credential %q of component %q is stored in plain text in the spec; it was copied into Secret %s. "+
			"Reference a Secret instead, or omit the value to generate one", p.Key, p.Component, p.Secret), p.Component}
}

func contentionEvent(namespace string, id desired.ID) eventRecord {
	return eventRecord{corev1.EventTypeWarning, "DriftContention", "Repair", contentionMessage(namespace, id), ""}
}

// contentionMessage is used in the event at the start of a contention and in the status during it.
func contentionMessage(namespace string, id desired.ID) string {
	return fmt.Sprintf("Another client keeps changing %s %s/%s; drift is corrected at most once per second. "+
		"To identify the client: kubectl get %s %s -n %s --show-managed-fields -o yaml",
		id.Kind.Kind, namespace, id.Name, strings.ToLower(id.Kind.Kind), id.Name, namespace)
}

// buildEvents returns the events for accepted writes and for a changed Ready condition.
func buildEvents(scope *execute.Scope, before, after *appsapi.ApplicationStatus) []eventRecord {
	var out []eventRecord
	for _, group := range []struct {
		action   apply.Action
		newEvent func(string, []string) eventRecord
	}{
		{apply.Created, createdEvent}, {apply.Adopted, adoptedEvent}, {apply.Updated, updatedEvent},
		{execute.Removed, prunedEvent}, {execute.Retained, retainedEvent},
		{execute.Replaced, claimReplacedEvent},
	} {
		var order []string
		children := map[string][]string{}
		for _, c := range scope.Changes {
			if c.Action != group.action {
				continue
			}
			if children[c.Component] == nil {
				order = append(order, c.Component)
			}
			children[c.Component] = append(children[c.Component], c.Child.Kind.Kind+" "+c.Child.Name)
		}
		for _, component := range order {
			out = append(out, group.newEvent(component, children[component]))
		}
	}
	for _, p := range scope.PlainPasswords {
		out = append(out, plainPasswordEvent(p))
	}
	for _, t := range scope.TakenOver {
		out = append(out, fieldsTakenOverEvent(t))
	}
	for _, id := range scope.NewlyContended {
		out = append(out, contentionEvent(scope.Owner.Namespace, id))
	}
	if o, ok := readyConditionEvent(before, after); ok {
		out = append(out, o)
	}
	return out
}

// readyConditionEvent returns the event for a changed Ready condition. Progress is not an event.
func readyConditionEvent(before, after *appsapi.ApplicationStatus) (eventRecord, bool) {
	previous := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReady)
	current := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReady)
	if current == nil { // the first reconcile was based on outdated state
		return eventRecord{}, false
	}
	if previous == nil {
		previous = &metav1.Condition{}
	}
	switch {
	case current.Reason == appsapi.ReasonDeleting, current.Reason == appsapi.ReasonWaitingForDependency:
		// Expected: an event is emitted only if the deletion or the dependency stalls.
		return warningEvent(current.Reason, current.Message), meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionStalled) &&
			!meta.IsStatusConditionTrue(before.Conditions, appsapi.ConditionStalled)
	case current.Reason == previous.Reason && current.Status == previous.Status, current.Reason == appsapi.ReasonSuspended:
		return eventRecord{}, false
	case current.Reason == appsapi.ReasonStorageResizing:
		return eventRecord{corev1.EventTypeNormal, current.Reason, "Grow", current.Message, ""}, true
	case current.Status == metav1.ConditionTrue:
		return readyEvent(current.Message), true
	case current.Reason == appsapi.ReasonProgressing, current.Reason == appsapi.ReasonInternalError:
		return eventRecord{}, false
	}
	return warningEvent(current.Reason, current.Message), true
}

// eventRecorder emits events about applications.
type eventRecorder struct{ events.EventRecorder }

func (r eventRecorder) emit(ctx context.Context, gvk schema.GroupVersionKind, scope *execute.Scope, before, after *appsapi.ApplicationStatus) {
	logger := log.FromContext(ctx)
	for _, o := range buildEvents(scope, before, after) {
		o.note = conditions.Truncate(o.note, maxNoteLength)
		logger.Info("Application changed", "reason", o.reason, "note", o.note)
		r.Eventf(regarding(scope.App, gvk, o.component), nil, o.eventType, o.reason, o.action, "%s", o.note)
	}
}

// regarding returns the object reference of an event. Events with the same reason and reference are
// aggregated. The field path keeps events of different generations and components apart, while a
// flapping component only increases a count.
func regarding(app client.Object, gvk schema.GroupVersionKind, component string) *corev1.ObjectReference {
	path := fmt.Sprintf("metadata.generation(%d)", app.GetGeneration())
	if component != "" {
		path += fmt.Sprintf(".spec.Components{%s}", component)
	}
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(), FieldPath: path,
	}
}
