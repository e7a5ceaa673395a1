package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Safety finds every write of the operator that it must never make, whatever it believes.
// writes are all of its requests, in whichever namespace.
func Safety(namespace string, timeline Timeline, writes audit.Events) []string {
	m := &monitor{timeline: timeline, caused: map[string]int{}}
	for i, e := range timeline {
		m.caused[e.Object.GetKind()+e.Object.GetName()+"@"+e.ResourceVersion] = i
	}
	for i := range writes {
		w := &writes[i]
		if !w.Write() || !w.Accepted() {
			continue
		}
		if w.ObjectRef.Namespace != namespace {
			m.violation(w, "is outside of the namespace "+namespace)
			continue
		}
		m.check(w)
	}
	return m.lines
}

type monitor struct {
	timeline Timeline
	caused   map[string]int // kind, name and resourceVersion of an event: its place
	lines    []string
}

func (m *monitor) violation(w *audit.Event, why string) {
	m.lines = append(m.lines, fmt.Sprintf("%s %s %s/%s at %s %s", w.User.Username, w.Verb, w.Resource(), w.ObjectRef.Name,
		w.StageTime.Format("15:04:05.000"), why))
}

// kinds of what the operator may write, by resource. All others are violations.
var kinds = map[string]string{
	"deployments": "Deployment", "services": "Service", "jobs": "Job", "cronjobs": "CronJob",
	"controllerrevisions": "ControllerRevision", "configmaps": "ConfigMap", "poddisruptionbudgets": "PodDisruptionBudget",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "ingresses": "Ingress",
}

func (m *monitor) check(w *audit.Event) {
	resource := w.ObjectRef.Resource
	kind := kinds[resource]
	switch {
	case resource == "events", resource == "leases":
	case resource == "secrets":
		// The key of the operator itself is made once, and never changed.
		if w.Verb != "create" {
			m.violation(w, "touches a Secret")
		}
	case resource == "appservices" || resource == "appstacks":
		m.checkApplication(w)
	case kind == "":
		m.violation(w, "is none of its business")
	case w.Verb == "delete":
		m.checkDelete(w, kind)
	default:
		m.checkChild(w, kind)
	}
}

// checkApplication lets status and finalizers be written.
func (m *monitor) checkApplication(w *audit.Event) {
	if w.Verb == "patch" && (w.ObjectRef.Subresource == "status" || strings.Contains(string(w.RequestObject), "finalizers")) {
		return
	}
	m.violation(w, "changes what belongs to the user")
}

// checkDelete wants every delete to name the object that was looked at, and that the spec,
// as it is in truth at that moment, does not want.
func (m *monitor) checkDelete(w *audit.Event, kind string) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(w.RequestObject, &options); err != nil || options.Preconditions == nil || options.Preconditions.UID == nil {
		m.violation(w, "deletes whatever has this name")
		return
	}
	i := slices.IndexFunc(m.timeline, func(e watcher.Event) bool {
		return e.UID == *options.Preconditions.UID && (e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil)
	})
	if i < 0 {
		m.violation(w, "was accepted, and nothing was seen of it")
		return
	}
	state, object := m.timeline.before(i), m.timeline[i].Object
	app, ok := state.ownedBy(controllerOf(object).UID)
	if !ok {
		if app, ok = state.ownedBy(ownerUID(object)); !ok {
			return // what is left of an application that is gone
		}
	}
	if app.object.GetDeletionTimestamp() != nil {
		return
	}
	if m.wanted(app, kind, object) {
		m.violation(w, "deletes what is wanted")
	}
	switch kind {
	case "Deployment":
		m.checkPrune(w, app, state, object)
	case "ConfigMap":
		m.checkFiles(w, state, object)
	}
}

// checkFiles wants files to stay for as long as a pod that may start again reads them.
func (m *monitor) checkFiles(w *audit.Event, state truth, object *unstructured.Unstructured) {
	for _, o := range state {
		var pods corev1.PodSpec
		switch o.GetKind() {
		case "Deployment":
			pods = read[appsv1.Deployment](o).Spec.Template.Spec
		case "Pod":
			pods = read[corev1.Pod](o).Spec
		}
		if o.GetDeletionTimestamp() == nil && slices.ContainsFunc(pods.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == object.GetName()
		}) {
			m.violation(w, fmt.Sprintf("deletes files that %s %s reads", o.GetKind(), o.GetName()))
		}
	}
}

// checkPrune wants what left the spec to stay until what took its place serves, and until
// nothing that runs needs it.
func (m *monitor) checkPrune(w *audit.Event, app application, state truth, object *unstructured.Unstructured) {
	component := object.GetLabels()[appsapi.LabelComponent]
	for _, p := range app.parts {
		if p.renamedFrom == component && p.service != nil && !state.serves(app, p) {
			m.violation(w, fmt.Sprintf("deletes %s before %s, which takes its place, is ready", component, p.selector))
		}
	}
	for _, o := range state {
		needs := strings.Split(o.GetAnnotations()[appsapi.AnnotationDependsOn], ",")
		if o.GetKind() == "Deployment" && o.GetUID() != object.GetUID() && o.GetDeletionTimestamp() == nil && slices.Contains(needs, component) {
			m.violation(w, fmt.Sprintf("deletes %s, which the pods of %s need", component, o.GetName()))
		}
	}
}

// wanted says whether the spec asks for a child. A job is wanted for as long as its own
// part of the spec is what it was when the job was made.
func (m *monitor) wanted(app application, kind string, child *unstructured.Unstructured) bool {
	for _, p := range app.parts {
		switch {
		case kind == "Deployment" && p.service != nil && p.name == child.GetName(),
			kind == "Service" && p.service != nil && len(p.service.Ports) > 0 && p.name == child.GetName(),
			kind == "PodDisruptionBudget" && p.service != nil && p.service.Replicas != nil && *p.service.Replicas > 1 && p.name == child.GetName():
			return true
		case kind == "Job" && p.job != nil && p.selector == child.GetLabels()[appsapi.LabelComponent] && p.name+"-" == child.GetName()[:min(len(p.name)+1, len(child.GetName()))]:
			return m.sameJob(app, p, child)
		}
	}
	return false
}

func (m *monitor) sameJob(app application, p part, child *unstructured.Unstructured) bool {
	born := slices.IndexFunc(m.timeline, func(e watcher.Event) bool { return e.UID == child.GetUID() })
	then, ok := m.timeline.before(born).ownedBy(app.object.GetUID())
	if !ok {
		return true
	}
	for _, q := range then.parts {
		if q.selector == p.selector && q.job != nil {
			a, _ := json.Marshal(q.job) // our own types can be encoded
			b, _ := json.Marshal(p.job)
			return string(a) == string(b)
		}
	}
	return true
}

// checkChild looks at what a create or a change has made of a child.
func (m *monitor) checkChild(w *audit.Event, kind string) {
	var after unstructured.Unstructured
	if err := json.Unmarshal(w.ResponseObject, &after.Object); err != nil {
		m.violation(w, "has an answer that cannot be read: "+err.Error())
		return
	}
	i, seen := m.caused[kind+after.GetName()+"@"+after.GetResourceVersion()]
	if !seen {
		return // it changed nothing
	}
	state := m.timeline.before(i)
	before := state[keyOf(kind, after.GetName())]
	app, ok := state.ownedBy(controllerOf(&after).UID)
	switch {
	case !ok:
		m.violation(w, "writes a child of nobody")
		return
	case before == nil && app.object.GetDeletionTimestamp() != nil:
		m.violation(w, "creates a child of what is being deleted")
	case before != nil && !ours(app, before):
		m.violation(w, "takes what is not its own")
	}
	if kind == "Deployment" {
		m.checkDeployment(w, app, before, &after)
	}
}

// ours says whether a child was this application's, or was handed over.
func ours(app application, child *unstructured.Unstructured) bool {
	uid := app.object.GetUID()
	controller := controllerOf(child).UID
	return controller == uid || controller == "" && ownerUID(child) == uid || child.GetAnnotations()[appsapi.AnnotationAdopt] == "true"
}

// checkDeployment wants an image or a number of replicas to change only to what the spec,
// as it is in truth at that moment, says.
func (m *monitor) checkDeployment(w *audit.Event, app application, before, after *unstructured.Unstructured) {
	d := read[appsv1.Deployment](after)
	var old appsv1.Deployment
	if before != nil {
		old = *read[appsv1.Deployment](before)
	}
	for _, p := range app.parts {
		if p.service == nil || p.name != d.Name {
			continue
		}
		image := imageOf(d.Spec.Template.Spec)
		if image != p.service.Image && (before == nil || imageOf(old.Spec.Template.Spec) != image) {
			m.violation(w, fmt.Sprintf("sets the image %s, the spec says %s", image, p.service.Image))
		}
		replicas := *d.Spec.Replicas
		if p.service.Replicas != nil && replicas != *p.service.Replicas && (before == nil || *old.Spec.Replicas != replicas) {
			m.violation(w, fmt.Sprintf("sets %d replicas, the spec says %d", replicas, *p.service.Replicas))
		}
		return
	}
	if before == nil {
		m.violation(w, "creates what nobody wants")
	}
}
