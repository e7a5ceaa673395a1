package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// checkClaim lets labels, annotations and the size of a claim be written, and those be
// deleted that nobody uses and that were asked to go.
func (m *writeChecker) checkClaim(w *audit.Event) {
	switch w.Verb {
	case "patch":
		m.checkPatch(w, "spec", "resources")
	case "delete":
		m.checkDataDelete(w)
	default:
		m.addViolation(w, "makes or replaces a claim, which only a StatefulSet does")
	}
}

// accountKeys are the keys of credentials that may be changed: what they become is judged by what becomes of
// data.
var accountKeys = []string{
	"root-password", "root-password-hash", "pending-root-password", "password", "password-hash", "pending-password",
}

// checkSecret lets credentials be made, and the key of the operator itself, passwords be replaced, and those be told
// who use them.
func (m *writeChecker) checkSecret(w *audit.Event) {
	switch w.Verb {
	case "create":
	case "patch":
		if strings.HasSuffix(w.ObjectRef.Name, "-binding") {
			m.checkBinding(w)
			return
		}
		m.checkPatch(w, "data", accountKeys...)
	case "delete":
		m.checkDataDelete(w)
	default:
		m.addViolation(w, "touches a Secret")
	}
}

// checkBinding wants what tells others how to get in to be of a set that is there.
func (m *writeChecker) checkBinding(w *audit.Event) {
	var after unstructured.Unstructured
	if err := json.Unmarshal(w.ResponseObject, &after.Object); err != nil {
		m.addViolation(w, "has an answer that cannot be read: "+err.Error())
		return
	}
	i, seen := m.eventIndex["Secret"+after.GetName()+"@"+after.GetResourceVersion()]
	if !seen {
		return // it changed nothing
	}
	set := m.timeline.stateBefore(i)[objectKey("StatefulSet", strings.TrimSuffix(after.GetName(), "-binding"))]
	if set == nil || len(after.GetOwnerReferences()) != 1 || after.GetOwnerReferences()[0].UID != set.GetUID() {
		m.addViolation(w, "tells how to get into what is not there")
	}
}

// checkPatch wants a patch to be about metadata, and these fields of another part, alone.
func (m *writeChecker) checkPatch(w *audit.Event, section string, allowed ...string) {
	var patch map[string]map[string]any
	if err := json.Unmarshal(w.RequestObject, &patch); err != nil {
		m.addViolation(w, "has a body that is no patch of data: "+err.Error())
		return
	}
	metadata := []string{"labels", "annotations", "uid", "resourceVersion"}
	for patchedSection, fields := range patch {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if patchedSection == "metadata" && slices.Contains(metadata, field) || patchedSection == section && slices.Contains(allowed, field) {
				continue
			}
			m.addViolation(w, fmt.Sprintf("changes %s.%s of what belongs to the user", patchedSection, field))
		}
	}
	if patch["metadata"]["uid"] == nil && patch["metadata"]["resourceVersion"] == nil {
		m.addViolation(w, "changes whatever has this name")
	}
}

// checkDataDelete wants the application, as it is in truth at that moment, to have asked for it,
// and nothing to use what goes.
func (m *writeChecker) checkDataDelete(w *audit.Event) {
	state, object, ok := m.deletedObject(w)
	if !ok {
		return
	}
	if reason := state.retentionReason(object); reason != "" {
		m.addViolation(w, "deletes data, and "+reason)
	}
	workload := object.GetLabels()[appsapi.LabelWorkload]
	if workload == "" {
		m.addViolation(w, "deletes what is no data of anybody")
	}
	if state.hasObject("StatefulSet", workload) {
		m.addViolation(w, "deletes data whose set is there")
	}
	if pod := state.podMounting(object.GetName()); object.GetKind() == "PersistentVolumeClaim" && pod != "" {
		m.addViolation(w, fmt.Sprintf("deletes the data that pod %s has", pod))
	}
	if object.GetKind() == "Secret" && state.hasClaim(workload) {
		m.addViolation(w, "deletes the password to data that is there")
	}
}

// orphansPods says whether a delete leaves the pods running.
func orphansPods(w *audit.Event) bool {
	var options metav1.DeleteOptions
	return json.Unmarshal(w.RequestObject, &options) == nil && options.PropagationPolicy != nil &&
		*options.PropagationPolicy == metav1.DeletePropagationOrphan
}

// checkStatefulSet wants the same of a set as of a Deployment, and that nothing of what it makes
// goes with it.
func (m *writeChecker) checkStatefulSet(w *audit.Event, app application, before, after *unstructured.Unstructured) {
	s := fromUnstructured[appsv1.StatefulSet](after)
	made := workload{template: s.Spec.Template, replicas: *s.Spec.Replicas}
	var old *workload
	if before != nil {
		b := fromUnstructured[appsv1.StatefulSet](before)
		old = &workload{template: b.Spec.Template, replicas: *b.Spec.Replicas}
	}
	policy := s.Spec.PersistentVolumeClaimRetentionPolicy
	if policy != nil && (policy.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType || policy.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType) {
		m.addViolation(w, "lets Kubernetes delete claims")
	}
	for _, p := range app.components {
		if p.stateful != nil && p.owns(after) {
			m.checkWorkload(w, p.stateful.Image, p.stateful.Replicas, old, made)
			return
		}
	}
	if before == nil {
		m.addViolation(w, "creates what nobody wants")
	}
}
