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

// SafetyViolations returns every forbidden write of the operator. writes are its requests in all namespaces.
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
			m.addViolation(w, "is outside of namespace "+namespace)
			continue
		}
		m.check(w)
	}
	return m.violations
}

type writeChecker struct {
	timeline   Timeline
	eventIndex map[string]int // kind, name and resourceVersion of an event to its index
	violations []string
}

func (m *writeChecker) addViolation(w *audit.Event, problem string) {
	m.violations = append(m.violations, fmt.Sprintf("%s %s %s/%s at %s %s", w.User.Username, w.Verb, w.Resource(), w.ObjectRef.Name,
		w.StageTime.Format("15:04:05.000"), problem))
}

// writableKinds are the kinds that the operator is allowed to write, by resource. All others are violations.
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
		m.addViolation(w, "is not a resource of the operator")
	case w.Verb == "delete":
		m.checkDelete(w, kind)
	default:
		m.checkChild(w, kind)
	}
}

// checkApplication allows writes of status and finalizers.
func (m *writeChecker) checkApplication(w *audit.Event) {
	if w.Verb == "patch" && (w.ObjectRef.Subresource == "status" || strings.Contains(string(w.RequestObject), "finalizers")) {
		return
	}
	m.addViolation(w, "changes fields that belong to the user")
}

// checkDelete checks that a delete has a UID precondition and that the current spec does not contain the object.
func (m *writeChecker) checkDelete(w *audit.Event, kind string) {
	state, object, ok := m.deletedObject(w)
	if !ok {
		return
	}
	app, ok := state.applicationByUID(controllerOf(object).UID)
	if !ok {
		if app, ok = state.applicationByUID(ownerUID(object)); !ok {
			return // leftover of a deleted application
		}
	}
	if app.object.GetDeletionTimestamp() != nil {
		return
	}
	if kind == "StatefulSet" && orphansPods(w) {
		return // the new StatefulSet adopts its pods
	}
	if m.isDesired(app, kind, object) {
		m.addViolation(w, "deletes an object that is in the spec")
	}
	switch kind {
	case "Deployment", "StatefulSet":
		m.checkPrune(w, app, state, object)
	case "ConfigMap":
		m.checkConfigMapDelete(w, state, object)
	}
}

// deletedObject returns the deleted object and the state before; false is a violation.
func (m *writeChecker) deletedObject(w *audit.Event) (clusterState, *unstructured.Unstructured, bool) {
	var options metav1.DeleteOptions
	if err := json.Unmarshal(w.RequestObject, &options); err != nil || options.Preconditions == nil || options.Preconditions.UID == nil {
		m.addViolation(w, "deletes without a UID precondition")
		return nil, nil, false
	}
	i := slices.IndexFunc(m.timeline, func(e watcher.Event) bool { return e.UID == *options.Preconditions.UID && isDeletion(e) })
	if i < 0 {
		m.addViolation(w, "was accepted, but no event was observed")
		return nil, nil, false
	}
	return m.timeline.stateBefore(i), m.timeline[i].Object, true
}

// checkConfigMapDelete checks that no pod template mounts the ConfigMap.
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
			m.addViolation(w, fmt.Sprintf("deletes a ConfigMap that %s %s mounts", o.GetKind(), o.GetName()))
		}
	}
}

// checkPrune checks that the replacement of a removed component is ready and that no running component depends on it.
func (m *writeChecker) checkPrune(w *audit.Event, app application, state clusterState, object *unstructured.Unstructured) {
	component := object.GetLabels()[appsapi.LabelComponent]
	for _, p := range app.components {
		if p.renamedFrom == component && p.service != nil && !state.deploymentReady(app, p) {
			m.addViolation(w, fmt.Sprintf("deletes %s before its replacement %s is ready", component, p.component))
		}
	}
	for _, o := range state {
		dependencies := strings.Split(o.GetAnnotations()[appsapi.DefaultKeys.DependsOn], ",")
		if (o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet") && o.GetUID() != object.GetUID() && o.GetDeletionTimestamp() == nil && slices.Contains(dependencies, component) {
			m.addViolation(w, fmt.Sprintf("deletes %s, but %s still depends on it", component, o.GetName()))
		}
	}
}

// isDesired reports whether the spec contains a child. A job is desired as long as its part of the spec has not changed
// since it was created.
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
			a, _ := json.Marshal(q.job) // own types can always be encoded
			b, _ := json.Marshal(p.job)
			return string(a) == string(b)
		}
	}
	return true
}

// checkChild checks the result of a create or an update.
func (m *writeChecker) checkChild(w *audit.Event, kind string) {
	var after unstructured.Unstructured
	if err := json.Unmarshal(w.ResponseObject, &after.Object); err != nil {
		m.addViolation(w, "has an invalid response: "+err.Error())
		return
	}
	i, seen := m.eventIndex[kind+after.GetName()+"@"+after.GetResourceVersion()]
	if !seen {
		return // no change
	}
	state := m.timeline.stateBefore(i)
	before := state[objectKey(kind, after.GetName())]
	app, ok := state.applicationByUID(controllerOf(&after).UID)
	switch {
	case !ok:
		m.addViolation(w, "writes an object without a controlling application")
		return
	case before == nil && app.object.GetDeletionTimestamp() != nil:
		m.addViolation(w, "creates a child of an application that is being deleted")
	case before != nil && !isOwnedBy(app, before):
		m.addViolation(w, "takes over an object of another owner")
	}
	switch kind {
	case "Deployment":
		m.checkDeployment(w, app, before, &after)
	case "StatefulSet":
		m.checkStatefulSet(w, app, before, &after)
	}
}

// isOwnedBy reports whether a child belonged to the application or was handed over.
func isOwnedBy(app application, child *unstructured.Unstructured) bool {
	uid := app.object.GetUID()
	controller := controllerOf(child).UID
	return controller == uid || controller == "" && ownerUID(child) == uid || child.GetAnnotations()[appsapi.DefaultKeys.Adopt] == "true"
}

// workload is the relevant spec of a Deployment or StatefulSet.
type workload struct {
	template corev1.PodTemplateSpec
	replicas int32
}

// checkDeployment checks a Deployment against the current spec.
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
		m.addViolation(w, "creates an object that is not in the spec")
	}
}

// checkWorkload checks that image and replicas change only to the values of the spec.
func (m *writeChecker) checkWorkload(w *audit.Event, image string, replicas *int32, before *workload, after workload) {
	made := imageOf(after.template.Spec)
	if made != image && (before == nil || imageOf(before.template.Spec) != made) {
		m.addViolation(w, fmt.Sprintf("sets the image %s, the spec says %s", made, image))
	}
	if replicas != nil && after.replicas != *replicas && (before == nil || before.replicas != after.replicas) {
		m.addViolation(w, fmt.Sprintf("sets %d replicas, the spec says %d", after.replicas, *replicas))
	}
}
