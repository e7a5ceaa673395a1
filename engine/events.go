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
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// maxNote is what the API server accepts of an event's text.
const maxNote = 1000

// occurrence is something worth telling a person.
type occurrence struct {
	kind   string // Normal or Warning
	reason string
	action string
	note   string
	// component that it is about; none is the whole application.
	component string
}

func created(component string, children []string) occurrence {
	return occurrence{corev1.EventTypeNormal, "ComponentCreated", "Apply", fmt.Sprintf("Created %s of component %q", strings.Join(children, " and "), component), component}
}

func updated(component string, children []string) occurrence {
	return occurrence{corev1.EventTypeNormal, "ComponentUpdated", "Apply", fmt.Sprintf("Updated %s of component %q", strings.Join(children, " and "), component), component}
}

func adopted(component string, children []string) occurrence {
	return occurrence{corev1.EventTypeNormal, "ComponentAdopted", "Adopt", fmt.Sprintf("Took over %s as component %q", strings.Join(children, " and "), component), component}
}

func pruned(component string, children []string) occurrence {
	return occurrence{corev1.EventTypeNormal, "ComponentPruned", "Prune", fmt.Sprintf("Deleted %s of component %q, no longer declared", strings.Join(children, " and "), component), component}
}

func retained(component string, children []string) occurrence {
	return occurrence{corev1.EventTypeNormal, "DataRetained", "Retain", fmt.Sprintf("Kept %s of component %q; status.retained says how to remove it", strings.Join(children, " and "), component), component}
}

func becameReady(message string) occurrence {
	return occurrence{corev1.EventTypeNormal, "ComponentReady", "Rollout", message, ""}
}

func trouble(reason, message string) occurrence {
	return occurrence{corev1.EventTypeWarning, reason, "Reconcile", message, ""}
}

// plainPassword is told once, when the password is copied to where it belongs.
func plainPassword(component, secret, key string) occurrence {
	return occurrence{corev1.EventTypeWarning, "PasswordInSpec", "Create", fmt.Sprintf("The credential %q of component %q is in the spec, where everybody can read it who may read the object; "+
		"it was copied into Secret %s. Better name a Secret, or leave it out and have one generated", key, component, secret), component}
}

func fight(namespace string, id desired.ID) occurrence {
	return occurrence{corev1.EventTypeWarning, "RepairThrottled", "Repair", quarrel(namespace, id), ""}
}

// quarrel is said in an event when it begins, and in the status while it lasts.
func quarrel(namespace string, id desired.ID) string {
	return fmt.Sprintf("Somebody keeps changing %s %s/%s; it is repaired at most once a second. Find out who: kubectl get %s %s -n %s --show-managed-fields -o yaml",
		id.Kind.Kind, namespace, id.Name, strings.ToLower(id.Kind.Kind), id.Name, namespace)
}

// occurrences are what changed: what was written, and what the status says newly.
func occurrences(namespace string, done outcome, before, after *appsapi.ApplicationStatus) []occurrence {
	var out []occurrence
	for _, kind := range []struct {
		what apply.Change
		tell func(string, []string) occurrence
	}{{apply.Created, created}, {apply.Adopted, adopted}, {apply.Updated, updated}, {removedChange, pruned}, {retainedChange, retained}} {
		var order []string
		children := map[string][]string{}
		for _, c := range done.changes {
			if c.what != kind.what {
				continue
			}
			if children[c.component] == nil {
				order = append(order, c.component)
			}
			children[c.component] = append(children[c.component], c.child.Kind.Kind+" "+c.child.Name)
		}
		for _, component := range order {
			out = append(out, kind.tell(component, children[component]))
		}
	}
	out = append(out, done.told...)
	for _, id := range done.fights {
		out = append(out, fight(namespace, id))
	}
	if o, ok := verdictOccurrence(before, after); ok {
		out = append(out, o)
	}
	return out
}

// verdictOccurrence tells what the Ready condition says newly, except that work goes on.
func verdictOccurrence(before, after *appsapi.ApplicationStatus) (occurrence, bool) {
	was := meta.FindStatusCondition(before.Conditions, appsapi.ConditionReady)
	is := meta.FindStatusCondition(after.Conditions, appsapi.ConditionReady)
	if was == nil {
		was = &metav1.Condition{}
	}
	switch {
	case is.Reason == appsapi.ReasonDeleting, is.Reason == appsapi.ReasonWaitingForDependency:
		// As it should be; only if it does not come to its end somebody has to know.
		return trouble(is.Reason, is.Message), meta.IsStatusConditionTrue(after.Conditions, appsapi.ConditionStalled) &&
			!meta.IsStatusConditionTrue(before.Conditions, appsapi.ConditionStalled)
	case is.Reason == was.Reason && is.Status == was.Status, is.Reason == appsapi.ReasonSuspended:
		return occurrence{}, false
	case is.Reason == appsapi.ReasonStorageResizing:
		return occurrence{corev1.EventTypeNormal, is.Reason, "Grow", is.Message, ""}, true
	case is.Status == metav1.ConditionTrue:
		return becameReady(is.Message), true
	case is.Reason == appsapi.ReasonProgressing, is.Reason == appsapi.ReasonInternalError:
		return occurrence{}, false
	}
	return trouble(is.Reason, is.Message), true
}

// recorder tells people what happened.
type recorder struct{ events.EventRecorder }

func (r recorder) tell(ctx context.Context, app client.Object, gvk schema.GroupVersionKind, done outcome, before, after *appsapi.ApplicationStatus) {
	log := ctrl.LoggerFrom(ctx)
	for _, o := range occurrences(app.GetNamespace(), done, before, after) {
		if len(o.note) > maxNote {
			o.note = o.note[:maxNote]
		}
		log.Info("Application changed", "reason", o.reason, "note", o.note)
		r.Eventf(regarding(app, gvk, o.component), nil, o.kind, o.reason, o.action, "%s", o.note)
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
