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

// checkClaim allows changes of labels, annotations and size, and requested deletions of unused claims.
func (m *writeChecker) checkClaim(w *audit.Event) {
	switch w.Verb {
	case "patch":
		m.checkPatch(w, "spec", "resources")
	case "delete":
		m.checkDataDelete(w)
	default:
		m.addViolation(w, "creates or replaces a claim, which only a StatefulSet is allowed to do")
	}
}

// accountKeys are the keys of credentials that the operator changes; DataViolations checks their values.
var accountKeys = []string{
	"root-password", "root-password-hash", "pending-root-password", "password", "password-hash", "pending-password",
}

// checkSecret allows the operator to create credentials and its own key, to replace passwords and to write bindings.
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
		m.addViolation(w, "writes a Secret with an unexpected verb")
	}
}

// checkBinding checks that a binding belongs to an existing StatefulSet.
func (m *writeChecker) checkBinding(w *audit.Event) {
	var after unstructured.Unstructured
	if err := json.Unmarshal(w.ResponseObject, &after.Object); err != nil {
		m.addViolation(w, "has an invalid response: "+err.Error())
		return
	}
	i, seen := m.eventIndex["Secret"+after.GetName()+"@"+after.GetResourceVersion()]
	if !seen {
		return // no change
	}
	set := m.timeline.stateBefore(i)[objectKey("StatefulSet", strings.TrimSuffix(after.GetName(), "-binding"))]
	if set == nil || len(after.GetOwnerReferences()) != 1 || after.GetOwnerReferences()[0].UID != set.GetUID() {
		m.addViolation(w, "writes a binding of a StatefulSet that does not exist")
	}
}

// checkPatch checks that a patch changes only metadata and the allowed fields of a section.
func (m *writeChecker) checkPatch(w *audit.Event, section string, allowed ...string) {
	var patch map[string]map[string]any
	if err := json.Unmarshal(w.RequestObject, &patch); err != nil {
		m.addViolation(w, "has an invalid patch: "+err.Error())
		return
	}
	metadata := []string{"labels", "annotations", "uid", "resourceVersion"}
	for patchedSection, fields := range patch {
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			if patchedSection == "metadata" && slices.Contains(metadata, field) || patchedSection == section && slices.Contains(allowed, field) {
				continue
			}
			m.addViolation(w, fmt.Sprintf("changes %s.%s, which belongs to the user", patchedSection, field))
		}
	}
	if patch["metadata"]["uid"] == nil && patch["metadata"]["resourceVersion"] == nil {
		m.addViolation(w, "patches without a UID precondition")
	}
}

// checkDataDelete checks that the application requested the deletion and that nothing uses the data.
func (m *writeChecker) checkDataDelete(w *audit.Event) {
	state, object, ok := m.deletedObject(w)
	if !ok {
		return
	}
	if reason := state.retentionReason(object); reason != "" {
		m.addViolation(w, "deletes data, but "+reason)
	}
	workload := object.GetLabels()[appsapi.DefaultKeys.Workload]
	if workload == "" {
		m.addViolation(w, "deletes a claim or Secret without a workload")
	}
	if state.hasObject("StatefulSet", workload) {
		m.addViolation(w, "deletes data while its StatefulSet exists")
	}
	if pod := state.podMounting(object.GetName()); object.GetKind() == "PersistentVolumeClaim" && pod != "" {
		m.addViolation(w, fmt.Sprintf("deletes data that pod %s mounts", pod))
	}
	if object.GetKind() == "Secret" && state.hasClaim(workload) {
		m.addViolation(w, "deletes the password of existing data")
	}
}

// orphansPods reports whether a delete keeps the pods.
func orphansPods(w *audit.Event) bool {
	var options metav1.DeleteOptions
	return json.Unmarshal(w.RequestObject, &options) == nil && options.PropagationPolicy != nil &&
		*options.PropagationPolicy == metav1.DeletePropagationOrphan
}

// checkStatefulSet checks a StatefulSet against the current spec, and that it does not delete its claims.
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
		m.addViolation(w, "allows Kubernetes to delete claims")
	}
	for _, p := range app.components {
		if p.stateful != nil && p.owns(after) {
			m.checkWorkload(w, p.stateful.Image, p.stateful.Replicas, old, made)
			return
		}
	}
	if before == nil {
		m.addViolation(w, "creates an object that is not in the spec")
	}
}
