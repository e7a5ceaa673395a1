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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// SafetyViolations finds every write of the operator that it must never make, whatever it believes.
// writes are all of its requests, in whichever namespace.
func SafetyViolations(namespace string, timeline Timeline, writes audit.Events) []string {
	m := &writeChecker{timeline: timeline, eventIndex: map[string]int{}}
	for i, e := range timeline {
		m.eventIndex[e.Object.GetKind()+e.Object.GetName()+"@"+e.ResourceVersion] = i
	}
	for i := range writes {
		w := &writes[i]
		if !w.IsWrite() || !w.Accepted() {
			continue
		}
		if w.ObjectRef.Namespace != namespace {
			m.addViolation(w, "is outside of the namespace "+namespace)
			continue
		}
		m.check(w)
	}
	return m.violations
}

type writeChecker struct {
	timeline   Timeline
	eventIndex map[string]int // kind, name and resourceVersion of an event: its place
	violations []string
}

func (m *writeChecker) addViolation(w *audit.Event, problem string) {
	m.violations = append(m.violations, fmt.Sprintf("%s %s %s/%s at %s %s", w.User.Username, w.Verb, w.Resource(), w.ObjectRef.Name,
		w.StageTime.Format("15:04:05.000"), problem))
}

// writableKinds of what the operator may write, by resource. All others are violations.
var writableKinds = map[string]string{
	"deployments": "Deployment", "statefulsets": "StatefulSet", "services": "Service", "jobs": "Job", "cronjobs": "CronJob",
	"controllerrevisions": "ControllerRevision", "configmaps": "ConfigMap", "poddisruptionbudgets": "PodDisruptionBudget",
	"horizontalpodautoscalers": "HorizontalPodAutoscaler", "ingresses": "Ingress",
}

func (m *writeChecker) check(w *audit.Event) {
	resource := w.ObjectRef.Resource
	kind := writableKinds[resource]
	switch {
	case resource == "events", resource == "leases":
	case resource == "secrets":
		m.checkSecret(w)
	case resource == "persistentvolumeclaims":
		m.checkClaim(w)
	case resource == "appservices" || resource == "appstacks":
		m.checkApplication(w)
	case kind == "":
		m.addViolation(w, "is none of its business")
	case w.Verb == "delete":
		m.checkDelete(w, kind)
	default:
		m.checkChild(w, kind)
	}
}

// checkApplication lets status and finalizers be written.
func (m *writeChecker) checkApplication(w *audit.Event) {
	if w.Verb == "patch" && (w.ObjectRef.Subresource == "status" || strings.Contains(string(w.RequestObject), "finalizers")) {
		return
	}
	m.addViolation(w, "changes what belongs to the user")
}

// checkDelete wants every delete to name the object that was looked at, and that the spec,
// as it is in truth at that moment, does not want.
func (m *writeChecker) checkDelete(w *audit.Event, kind string) {
	state, object, ok := m.deletedObject(w)
	if !ok {
		return
	}
	app, ok := state.applicationByUID(controllerOf(object).UID)
	if !ok {
		if app, ok = state.applicationByUID(ownerUID(object)); !ok {
			return // what is left of an application that is gone
		}
	}
	if app.object.GetDeletionTimestamp() != nil {
		return
	}
	if kind == "StatefulSet" && orphansPods(w) {
		return // its pods run on, and the next one takes them over
	}
	if m.isDesired(app, kind, object) {
		m.addViolation(w, "deletes what is wanted")
	}
	switch kind {
	case "Deployment", "StatefulSet":
		m.checkPrune(w, app, state, object)
	case "ConfigMap":
		m.checkConfigMapDelete(w, state, object)
	}
}

// deletedObject returns what a delete took away, and the state just before; false is a violation.
func (m *writeChecker) deletedObject(w *audit.Event) (clusterState, *unstructured.Unstructured, bool) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(w.RequestObject, &options); err != nil || options.Preconditions == nil || options.Preconditions.UID == nil {
		m.addViolation(w, "deletes whatever has this name")
		return nil, nil, false
	}
	i := slices.IndexFunc(m.timeline, func(e watcher.Event) bool { return e.UID == *options.Preconditions.UID && isDeletion(e) })
	if i < 0 {
		m.addViolation(w, "was accepted, and nothing was seen of it")
		return nil, nil, false
	}
	return m.timeline.stateBefore(i), m.timeline[i].Object, true
}

// checkConfigMapDelete wants files to stay for as long as a pod that may start again reads them.
func (m *writeChecker) checkConfigMapDelete(w *audit.Event, state clusterState, object *unstructured.Unstructured) {
	for _, o := range state {
		var pods corev1.PodSpec
		switch o.GetKind() {
		case "Deployment":
			pods = fromUnstructured[appsv1.Deployment](o).Spec.Template.Spec
		case "StatefulSet":
			pods = fromUnstructured[appsv1.StatefulSet](o).Spec.Template.Spec
		case "Pod":
			pods = fromUnstructured[corev1.Pod](o).Spec
		}
		if o.GetDeletionTimestamp() == nil && slices.ContainsFunc(pods.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == object.GetName()
		}) {
			m.addViolation(w, fmt.Sprintf("deletes files that %s %s reads", o.GetKind(), o.GetName()))
		}
	}
}

// checkPrune wants what left the spec to stay until what took its place serves, and until
// nothing that runs needs it.
func (m *writeChecker) checkPrune(w *audit.Event, app application, state clusterState, object *unstructured.Unstructured) {
	component := object.GetLabels()[appsapi.LabelComponent]
	for _, p := range app.components {
		if p.renamedFrom == component && p.service != nil && !state.deploymentReady(app, p) {
			m.addViolation(w, fmt.Sprintf("deletes %s before %s, which takes its place, is ready", component, p.component))
		}
	}
	for _, o := range state {
		dependencies := strings.Split(o.GetAnnotations()[appsapi.AnnotationDependsOn], ",")
		if (o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet") && o.GetUID() != object.GetUID() && o.GetDeletionTimestamp() == nil && slices.Contains(dependencies, component) {
			m.addViolation(w, fmt.Sprintf("deletes %s, which the pods of %s need", component, o.GetName()))
		}
	}
}

// isDesired says whether the spec asks for a child. A job is wanted for as long as its own
// part of the spec is what it was when the job was made.
func (m *writeChecker) isDesired(app application, kind string, child *unstructured.Unstructured) bool {
	for _, p := range app.components {
		switch server := p.server(); {
		case kind == "StatefulSet" && p.stateful != nil && p.owns(child),
			kind == "Service" && p.stateful != nil && p.owns(child) && strings.HasSuffix(child.GetName(), "-headless"),
			kind == "Deployment" && p.service != nil && p.resourceName == child.GetName(),
			kind == "Service" && server != nil && len(server.Ports) > 0 && p.resourceName == child.GetName(),
			kind == "PodDisruptionBudget" && server != nil && server.Replicas != nil && *server.Replicas > 1 && p.resourceName == child.GetName():
			return true
		case kind == "Job" && p.job != nil && p.component == child.GetLabels()[appsapi.LabelComponent] && p.resourceName+"-" == child.GetName()[:min(len(p.resourceName)+1, len(child.GetName()))]:
			return m.jobSpecUnchanged(app, p, child)
		}
	}
	return false
}

func (m *writeChecker) jobSpecUnchanged(app application, p componentSpec, child *unstructured.Unstructured) bool {
	createdAt := slices.IndexFunc(m.timeline, func(e watcher.Event) bool { return e.UID == child.GetUID() })
	original, ok := m.timeline.stateBefore(createdAt).applicationByUID(app.object.GetUID())
	if !ok {
		return true
	}
	for _, q := range original.components {
		if q.component == p.component && q.job != nil {
			a, _ := json.Marshal(q.job) // our own types can be encoded
			b, _ := json.Marshal(p.job)
			return string(a) == string(b)
		}
	}
	return true
}

// checkChild looks at what a create or a change has made of a child.
func (m *writeChecker) checkChild(w *audit.Event, kind string) {
	var after unstructured.Unstructured
	if err := json.Unmarshal(w.ResponseObject, &after.Object); err != nil {
		m.addViolation(w, "has an answer that cannot be read: "+err.Error())
		return
	}
	i, seen := m.eventIndex[kind+after.GetName()+"@"+after.GetResourceVersion()]
	if !seen {
		return // it changed nothing
	}
	state := m.timeline.stateBefore(i)
	before := state[objectKey(kind, after.GetName())]
	app, ok := state.applicationByUID(controllerOf(&after).UID)
	switch {
	case !ok:
		m.addViolation(w, "writes a child of nobody")
		return
	case before == nil && app.object.GetDeletionTimestamp() != nil:
		m.addViolation(w, "creates a child of what is being deleted")
	case before != nil && !isOwnedBy(app, before):
		m.addViolation(w, "takes what is not its own")
	}
	switch kind {
	case "Deployment":
		m.checkDeployment(w, app, before, &after)
	case "StatefulSet":
		m.checkStatefulSet(w, app, before, &after)
	}
}

// isOwnedBy says whether a child was this application's, or was handed over.
func isOwnedBy(app application, child *unstructured.Unstructured) bool {
	uid := app.object.GetUID()
	controller := controllerOf(child).UID
	return controller == uid || controller == "" && ownerUID(child) == uid || child.GetAnnotations()[appsapi.AnnotationAdopt] == "true"
}

// workload is what a Deployment or StatefulSet makes.
type workload struct {
	template corev1.PodTemplateSpec
	replicas int32
}

// checkDeployment wants a Deployment to be what the spec, as it is in truth at that moment,
// says.
func (m *writeChecker) checkDeployment(w *audit.Event, app application, before, after *unstructured.Unstructured) {
	d := fromUnstructured[appsv1.Deployment](after)
	var old *workload
	if before != nil {
		b := fromUnstructured[appsv1.Deployment](before)
		old = &workload{b.Spec.Template, *b.Spec.Replicas}
	}
	for _, p := range app.components {
		if p.service != nil && p.resourceName == d.Name {
			m.checkWorkload(w, p.service.Image, p.service.Replicas, old, workload{d.Spec.Template, *d.Spec.Replicas})
			return
		}
	}
	if before == nil {
		m.addViolation(w, "creates what nobody wants")
	}
}

// checkWorkload wants an image or a number of replicas to change only to what the spec
// says.
func (m *writeChecker) checkWorkload(w *audit.Event, image string, replicas *int32, before *workload, after workload) {
	made := imageOf(after.template.Spec)
	if made != image && (before == nil || imageOf(before.template.Spec) != made) {
		m.addViolation(w, fmt.Sprintf("sets the image %s, the spec says %s", made, image))
	}
	if replicas != nil && after.replicas != *replicas && (before == nil || before.replicas != after.replicas) {
		m.addViolation(w, fmt.Sprintf("sets %d replicas, the spec says %d", after.replicas, *replicas))
	}
}
