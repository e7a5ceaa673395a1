package oracle

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// DataViolations returns violations of data safety by any client: a claim is deleted without a request, a password
// changes or is deleted before its volume, or a component starts empty although it has data.
func DataViolations(timeline Timeline) []string {
	d := dataChecker{state: clusterState{}, passwords: map[string]map[string]string{}}
	for _, e := range timeline {
		switch e.Object.GetKind() {
		case "PersistentVolumeClaim":
			d.checkClaim(e)
		case "Secret":
			d.checkSecret(e)
		case "StatefulSet":
			d.checkStatefulSet(e)
		}
		d.state.applyEvent(e)
		d.dropUnusedPasswords()
	}
	return d.violations
}

type dataChecker struct {
	state      clusterState                 // before the current event
	passwords  map[string]map[string]string // by workload, as long as it has a claim
	violations []string
}

func (d *dataChecker) addViolation(e watcher.Event, format string, args ...any) {
	d.violations = append(d.violations, fmt.Sprintf("%s %s at %s: %s", e.Object.GetKind(), e.Object.GetName(), e.ResourceVersion, fmt.Sprintf(format, args...)))
}

// checkClaim checks that a deleted claim was requested to be deleted, and that no claim has a duplicate.
func (d *dataChecker) checkClaim(e watcher.Event) {
	before := d.state[objectKey("PersistentVolumeClaim", e.Object.GetName())]
	if isDeletion(e) && (before == nil || before.GetDeletionTimestamp() == nil) {
		if reason := d.state.retentionReason(e.Object); reason != "" {
			d.addViolation(e, "its data is deleted, but %s", reason)
		}
		return
	}
	slot := dataSlotOf(e.Object)
	for _, other := range d.state.claims() {
		if slot != "" && other.GetUID() != e.UID && dataSlotOf(other) == slot {
			d.addViolation(e, "duplicates %s of the same pod", other.GetName())
		}
	}
}

func isDeletion(e watcher.Event) bool {
	return e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil
}

// retentionReason returns why a claim or credentials must be kept, or "".
func (t clusterState) retentionReason(data *unstructured.Unstructured) string {
	app, ok := t.applicationByUID(ownerUID(data))
	switch {
	case !ok:
		return "no application requested it"
	case app.deletionPolicy != appsapi.DeletionDelete:
		return "the deletion policy is not Delete"
	case data.GetLabels()[appsapi.DefaultKeys.Retained] != "":
		return "it was retained before"
	case app.object.GetDeletionTimestamp() != nil:
		return ""
	}
	for _, p := range app.components {
		if p.stateful != nil && p.owns(data) {
			return fmt.Sprintf("component %q is in the spec", p.component)
		}
	}
	return ""
}

// dataSlotOf identifies the data of a claim: application, component, volume and pod ordinal. It is empty for a claim
// without labels and for a released claim.
func dataSlotOf(claim *unstructured.Unstructured) string {
	l := claim.GetLabels()
	set := strings.TrimPrefix(l[appsapi.DefaultKeys.Workload], "statefulset-")
	volume, pod, ok := strings.Cut(claim.GetName(), "-"+set+"-")
	if !ok || set == "" || l[appsapi.LabelComponent] == "" || claim.GetAnnotations()[appsapi.DefaultKeys.Released] == "true" {
		return ""
	}
	return strings.Join([]string{l[appsapi.DefaultKeys.OwnerKind], l[appsapi.LabelInstance], l[appsapi.LabelComponent], volume, pod}, "/")
}

// checkSecret checks that a password does not change and is not deleted as long as its volume exists.
func (d *dataChecker) checkSecret(e watcher.Event) {
	workload := e.Object.GetLabels()[appsapi.DefaultKeys.Workload]
	if workload == "" {
		return
	}
	hasData := d.state.hasClaim(workload)
	if isDeletion(e) {
		if hasData {
			d.addViolation(e, "the password is deleted before its volume")
		}
		return
	}
	content := map[string]string{}
	data, _, _ := unstructured.NestedStringMap(e.Object.Object, "data")
	maps.Copy(content, data)
	switch previous, ok := d.passwords[workload]; {
	case ok && hasData && changedUnannounced(previous, content):
		d.addViolation(e, "the password changed, but the data requires the old one")
	case !ok && hasData:
		d.addViolation(e, "a new password is generated for existing data")
	}
	d.passwords[workload] = content
}

// pendingPrefix is the prefix of the keys of new passwords during a rotation.
const pendingPrefix = "pending-"

// changedUnannounced reports whether a password changed to a value that was not stored as pending before. Hashes are
// derived from passwords.
func changedUnannounced(previous, current map[string]string) bool {
	for key, oldValue := range previous {
		if strings.HasPrefix(key, pendingPrefix) || strings.HasSuffix(key, "-hash") || current[key] == oldValue {
			continue
		}
		if current[key] == "" || current[key] != previous[pendingPrefix+key] {
			return true
		}
	}
	return false
}

// checkStatefulSet checks that a component starts with its existing data.
func (d *dataChecker) checkStatefulSet(e watcher.Event) {
	if e.Type != watch.Added || e.FromList {
		return
	}
	app, ok := d.state.applicationByUID(controllerOf(e.Object).UID)
	if !ok {
		return
	}
	for _, claim := range d.state.claims() {
		l := claim.GetLabels()
		if l[appsapi.DefaultKeys.OwnerKind] != app.object.GetKind() || l[appsapi.LabelInstance] != app.object.GetName() ||
			l[appsapi.DefaultKeys.Workload] == e.Object.GetLabels()[appsapi.DefaultKeys.Workload] || claim.GetAnnotations()[appsapi.DefaultKeys.Released] == "true" {
			continue
		}
		for _, p := range app.components {
			if p.owns(e.Object) && p.owns(claim) {
				d.addViolation(e, "starts without %s, which has the data of its component", claim.GetName())
			}
		}
	}
}

// dropUnusedPasswords forgets passwords whose volume was deleted.
func (d *dataChecker) dropUnusedPasswords() {
	for workload := range d.passwords {
		if !d.state.hasClaim(workload) && !d.state.hasSecret(workload) {
			delete(d.passwords, workload)
		}
	}
}

func (t clusterState) claims() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range t {
		if o.GetKind() == "PersistentVolumeClaim" {
			all = append(all, o)
		}
	}
	return all
}

func (t clusterState) hasClaim(workload string) bool {
	return t.hasObject("PersistentVolumeClaim", workload)
}

func (t clusterState) hasSecret(workload string) bool { return t.hasObject("Secret", workload) }

// hasObject reports whether a workload has an object of a kind.
func (t clusterState) hasObject(kind, workload string) bool {
	for _, o := range t {
		if o.GetKind() == kind && o.GetLabels()[appsapi.DefaultKeys.Workload] == workload {
			return true
		}
	}
	return false
}

// podMounting returns a running pod that mounts a claim.
func (t clusterState) podMounting(claim string) string {
	for _, o := range t {
		if o.GetKind() != "Pod" {
			continue
		}
		pod := fromUnstructured[corev1.Pod](o)
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for i := range pod.Spec.Volumes {
			if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == claim {
				return pod.Name
			}
		}
	}
	return ""
}
