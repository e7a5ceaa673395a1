package engine

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/conditions"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// maxNoteLength is what the API server accepts of an event's text.
const maxNoteLength = 1000

// eventRecord is something worth telling a person.
type eventRecord struct {
	eventType string // Normal or Warning
	reason    string
	action    string
	note      string
	// component that it is about; none is the whole application.
	component string
}

func createdEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentCreated", "Apply", fmt.Sprintf("Created %s of component %q", strings.Join(children, " and "), component), component}
}

func updatedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentUpdated", "Apply", fmt.Sprintf("Updated %s of component %q", strings.Join(children, " and "), component), component}
}

func adoptedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentAdopted", "Adopt", fmt.Sprintf("Took over %s as component %q", strings.Join(children, " and "), component), component}
}

func prunedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentPruned", "Prune", fmt.Sprintf("Deleted %s of component %q, no longer declared", strings.Join(children, " and "), component), component}
}

func retainedEvent(component string, children []string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "DataRetained", "Retain", fmt.Sprintf("Kept %s of component %q; status.retained says how to remove it", strings.Join(children, " and "), component), component}
}

func readyEvent(message string) eventRecord {
	return eventRecord{corev1.EventTypeNormal, "ComponentReady", "Rollout", message, ""}
}

func warningEvent(reason, message string) eventRecord {
	return eventRecord{corev1.EventTypeWarning, reason, "Reconcile", message, ""}
}

// passwordInSpecEvent is told once, when the password is copied to where it belongs.
func passwordInSpecEvent(component, secret, key string) eventRecord {
	return eventRecord{corev1.EventTypeWarning, "PasswordInSpec", "Create", fmt.Sprintf("The credential %q of component %q is in the spec, where everybody can read it who may read the object; "+
		"it was copied into Secret %s. Better name a Secret, or leave it out and have one generated", key, component, secret), component}
}

func contentionEvent(namespace string, id desired.ID) eventRecord {
	return eventRecord{corev1.EventTypeWarning, "DriftContention", "Repair", contentionMessage(namespace, id), ""}
}

// contentionMessage is said in an event when it begins, and in the status while it lasts.
func contentionMessage(namespace string, id desired.ID) string {
	return fmt.Sprintf("Somebody keeps changing %s %s/%s; it is repaired at most once a second. Find out who: kubectl get %s %s -n %s --show-managed-fields -o yaml",
		id.Kind.Kind, namespace, id.Name, strings.ToLower(id.Kind.Kind), id.Name, namespace)
}

// buildEvents are what changed: what was written, and what the status says newly.
func buildEvents(namespace string, res result, before, after *appsapi.ApplicationStatus) []eventRecord {
	var out []eventRecord
	for _, group := range []struct {
		action   apply.Action
		newEvent func(string, []string) eventRecord
	}{{apply.Created, createdEvent}, {apply.Adopted, adoptedEvent}, {apply.Updated, updatedEvent}, {removedChange, prunedEvent}, {retainedChange, retainedEvent}} {
		var order []string
		children := map[string][]string{}
		for _, c := range res.changes {
			if c.action != group.action {
				continue
			}
			if children[c.component] == nil {
				order = append(order, c.component)
			}
			children[c.component] = append(children[c.component], c.child.Kind.Kind+" "+c.child.Name)
		}
		for _, component := range order {
			out = append(out, group.newEvent(component, children[component]))
		}
	}
	out = append(out, res.events...)
	for _, id := range res.newlyContended {
		out = append(out, contentionEvent(namespace, id))
	}
	if o, ok := readyConditionEvent(before, after); ok {
		out = append(out, o)
	}
	return out
}

// readyConditionEvent tells what the Ready condition says newly, except that work goes on.
func readyConditionEvent(before, after *appsapi.ApplicationStatus) (eventRecord, bool) {
	previous := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReady)
	current := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReady)
	if previous == nil {
		previous = &metav1.Condition{}
	}
	switch {
	case current.Reason == appsapi.ReasonDeleting, current.Reason == appsapi.ReasonWaitingForDependency:
		// As it should be; only if it does not come to its end somebody has to know.
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

// eventRecorder tells people what happened.
type eventRecorder struct{ events.EventRecorder }

func (r eventRecorder) emit(ctx context.Context, app client.Object, gvk schema.GroupVersionKind, res result, before, after *appsapi.ApplicationStatus) {
	log := ctrl.LoggerFrom(ctx)
	for _, o := range buildEvents(app.GetNamespace(), res, before, after) {
		o.note = conditions.Truncate(o.note, maxNoteLength)
		log.Info("Application changed", "reason", o.reason, "note", o.note)
		r.Eventf(regarding(app, gvk, o.component), nil, o.eventType, o.reason, o.action, "%s", o.note)
	}
}

// regarding is what an event is about. Events of the same reason about the same reference
// are counted, not told again: what happens to another generation or component is news,
// what flaps within one is not.
func regarding(app client.Object, gvk schema.GroupVersionKind, component string) *corev1.ObjectReference {
	path := fmt.Sprintf("metadata.generation(%d)", app.GetGeneration())
	if component != "" {
		path += fmt.Sprintf(".spec.components{%s}", component)
	}
	return &corev1.ObjectReference{
		APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind,
		Namespace: app.GetNamespace(), Name: app.GetName(), UID: app.GetUID(), FieldPath: path,
	}
}
