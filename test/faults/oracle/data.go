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

// DataViolations finds everything that must not happen to data, whoever did it: a claim goes that
// nobody asked to delete, a password changes or goes before what it opens, a component
// begins empty beside what it had.
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
	state      clusterState                 // before the event that is looked at
	passwords  map[string]map[string]string // by workload, for as long as it has a claim
	violations []string
}

func (d *dataChecker) addViolation(e watcher.Event, format string, args ...any) {
	d.violations = append(d.violations, fmt.Sprintf("%s %s at %s: %s", e.Object.GetKind(), e.Object.GetName(), e.ResourceVersion, fmt.Sprintf(format, args...)))
}

// checkClaim wants one that begins to go to have been asked for, and none to be the second of
// its kind.
func (d *dataChecker) checkClaim(e watcher.Event) {
	before := d.state[objectKey("PersistentVolumeClaim", e.Object.GetName())]
	if isDeletion(e) && (before == nil || before.GetDeletionTimestamp() == nil) {
		if reason := d.state.retentionReason(e.Object); reason != "" {
			d.addViolation(e, "its data goes, and %s", reason)
		}
		return
	}
	slot := dataSlotOf(e.Object)
	for _, other := range d.state.claims() {
		if slot != "" && other.GetUID() != e.UID && dataSlotOf(other) == slot {
			d.addViolation(e, "%s has the data of the same pod", other.GetName())
		}
	}
}

func isDeletion(e watcher.Event) bool {
	return e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil
}

// retentionReason says why a claim or credentials have to stay, or nothing.
func (t clusterState) retentionReason(data *unstructured.Unstructured) string {
	app, ok := t.applicationByUID(ownerUID(data))
	switch {
	case !ok:
		return "it is not of an application that could have asked for it"
	case app.deletionPolicy != appsapi.DeletionDelete:
		return "the application says that data is kept"
	case data.GetLabels()[appsapi.LabelRetained] != "":
		return "it was kept on purpose before"
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

// dataSlotOf is what a claim has the data of: application, component, volume and number of the
// pod. It is empty for one that does not say, or that others may start beside.
func dataSlotOf(claim *unstructured.Unstructured) string {
	l := claim.GetLabels()
	set := strings.TrimPrefix(l[appsapi.LabelWorkload], "statefulset-")
	volume, pod, ok := strings.Cut(claim.GetName(), "-"+set+"-")
	if !ok || set == "" || l[appsapi.LabelComponent] == "" || claim.GetAnnotations()[appsapi.AnnotationReleased] == "true" {
		return ""
	}
	return strings.Join([]string{l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance], l[appsapi.LabelComponent], volume, pod}, "/")
}

// checkSecret wants a password to stay what it is, and to stay, for as long as what it opens.
func (d *dataChecker) checkSecret(e watcher.Event) {
	workload := e.Object.GetLabels()[appsapi.LabelWorkload]
	if workload == "" {
		return
	}
	hasData := d.state.hasClaim(workload)
	if isDeletion(e) {
		if hasData {
			d.addViolation(e, "the password goes before what it opens")
		}
		return
	}
	content := map[string]string{}
	data, _, _ := unstructured.NestedStringMap(e.Object.Object, "data")
	maps.Copy(content, data)
	switch previous, ok := d.passwords[workload]; {
	case ok && hasData && changedUnannounced(previous, content):
		d.addViolation(e, "the password has changed, and there is data that only the old one opens")
	case !ok && hasData:
		d.addViolation(e, "a password is made up for data that is there already")
	}
	d.passwords[workload] = content
}

// pendingPrefix is how the key of a password begins that another one is to become.
const pendingPrefix = "pending-"

// changedUnannounced says whether a password is another one, which was not written down before as the one
// that it would become. Hashes follow from passwords.
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

// checkStatefulSet wants a component to begin with the data that it has.
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
		if l[appsapi.LabelOwnerKind] != app.object.GetKind() || l[appsapi.LabelInstance] != app.object.GetName() ||
			l[appsapi.LabelWorkload] == e.Object.GetLabels()[appsapi.LabelWorkload] || claim.GetAnnotations()[appsapi.AnnotationReleased] == "true" {
			continue
		}
		for _, p := range app.components {
			if p.owns(e.Object) && p.owns(claim) {
				d.addViolation(e, "begins beside %s, which has the data of its component", claim.GetName())
			}
		}
	}
}

// dropUnusedPasswords drops the passwords that open nothing.
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

// hasObject says whether there is something of a kind that belongs to a workload.
func (t clusterState) hasObject(kind, workload string) bool {
	for _, o := range t {
		if o.GetKind() == kind && o.GetLabels()[appsapi.LabelWorkload] == workload {
			return true
		}
	}
	return false
}

// podMounting says whether a pod that has not ended has a claim.
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
