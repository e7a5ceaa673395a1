package reconcile

import (
	"context"
	"fmt"
	"hash/fnv"
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

// updatedEvent reports the changed children of a component, each with the reason for its change.
func updatedEvent(keys *appsapi.Keys, changes []execute.Change) eventRecord {
	children := make([]string, len(changes))
	for i, c := range changes {
		children[i] = c.Child.Kind.Kind + " " + c.Child.Name
		if trigger := updateTrigger(keys, c); trigger != "" {
			children[i] += ": " + trigger
		}
	}
	return eventRecord{corev1.EventTypeNormal, "ComponentUpdated", "Apply", "Updated " + strings.Join(children, "; "), changes[0].Component}
}

// maxListedFields is the number of fields that an event names.
const maxListedFields = 3

// updateTrigger returns the reason for an update: the fields that changed, and otherwise the ConfigMaps
// and Secrets. Annotations of the operator are only derived from them.
func updateTrigger(keys *appsapi.Keys, c execute.Change) string {
	var names []string
	for _, f := range c.Fields {
		switch name := f.Path.Last().Name; {
		case name == keys.RestartedAt:
			return "restart requested"
		case !keys.Own(name):
			names = append(names, f.Path.String())
		}
	}
	if len(names) == 0 {
		for _, ref := range c.Refs {
			names = append(names, ref.Kind+" "+ref.Name)
		}
	}
	if more := len(names) - maxListedFields; more > 0 {
		names = append(names[:maxListedFields], fmt.Sprintf("%d more", more))
	}
	if len(names) == 0 {
		return ""
	}
	return joinWords(names) + " changed"
}

// joinWords joins words as in a sentence.
func joinWords(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// driftCorrectedEvent reports corrections of one child.
func driftCorrectedEvent(d appsapi.DriftCorrection) eventRecord {
	object, by := d.Object.Kind+" "+d.Object.Name, "another client"
	if len(d.Managers) > 0 {
		by = joinWords(d.Managers)
	}
	note := fmt.Sprintf("Corrected %s, which %s had changed", object, by)
	if d.Deleted {
		note = fmt.Sprintf("Created %s again, which another client had deleted", object)
	}
	for i, f := range d.Fields {
		separator := "; "
		if i == 0 {
			separator = ": "
		}
		note += separator + correctionText(f)
	}
	if d.Count > 1 {
		note += fmt.Sprintf(" (%d corrections since %s)", d.Count, d.FirstTime.UTC().Format("15:04:05 MST"))
	}
	return eventRecord{corev1.EventTypeNormal, "DriftCorrected", "Repair", note, ""}
}

func correctionText(f appsapi.CorrectedField) string {
	switch {
	case f.From == "":
		return fmt.Sprintf("%s set to %q", f.Path, f.To)
	case f.To == "":
		return fmt.Sprintf("%s %q removed", f.Path, f.From)
	}
	return fmt.Sprintf("%s from %q to %q", f.Path, f.From, f.To)
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
		{apply.Created, createdEvent}, {apply.Adopted, adoptedEvent},
		{execute.Removed, prunedEvent}, {execute.Retained, retainedEvent},
		{execute.Replaced, claimReplacedEvent},
	} {
		for _, changes := range changesByComponent(scope.Changes, group.action) {
			children := make([]string, len(changes))
			for i, c := range changes {
				children[i] = c.Child.Kind.Kind + " " + c.Child.Name
			}
			out = append(out, group.newEvent(changes[0].Component, children))
		}
	}
	for _, changes := range changesByComponent(scope.Changes, apply.Updated) {
		out = append(out, updatedEvent(scope.Owner.Keys, changes))
	}
	for _, d := range scope.DriftCorrections {
		out = append(out, driftCorrectedEvent(d))
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

// changesByComponent groups the changes with an action.
func changesByComponent(all []execute.Change, action apply.Action) [][]execute.Change {
	var groups [][]execute.Change
	index := map[string]int{}
	for _, c := range all {
		if c.Action != action {
			continue
		}
		i, ok := index[c.Component]
		if !ok {
			i, groups = len(groups), append(groups, nil)
			index[c.Component] = i
		}
		groups[i] = append(groups[i], c)
	}
	return groups
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
		ref := reference(scope.App, gvk)
		r.Eventf(ref, related(ref, o, scope.App.GetGeneration()), o.eventType, o.reason, o.action, "%s", o.note)
	}
}

func reference(app client.Object, gvk schema.GroupVersionKind) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(),
	}
}

// related returns the second reference of an event. The recorder counts an event instead of creating
// it if an earlier event has the same reason and references, and ignores the note. A digest of the note
// in the field path keeps different changes apart, while a flapping component only increases a count.
// kubectl prints the field path of the first reference only.
func related(ref *corev1.ObjectReference, o eventRecord, generation int64) *corev1.ObjectReference {
	digest := fnv.New64a()
	_, _ = fmt.Fprint(digest, generation, o.component, o.note) // writes to a hash do not fail
	out := *ref
	out.FieldPath = fmt.Sprintf("event{%x}", digest.Sum64())
	return &out
}
