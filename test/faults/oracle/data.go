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

// Data finds everything that must not happen to data, whoever did it: a claim goes that
// nobody asked to delete, a password changes or goes before what it opens, a component
// begins empty beside what it had.
func Data(timeline Timeline) []string {
	d := dataJudge{state: truth{}, passwords: map[string]map[string]string{}}
	for _, e := range timeline {
		switch e.Object.GetKind() {
		case "PersistentVolumeClaim":
			d.claim(e)
		case "Secret":
			d.secret(e)
		case "StatefulSet":
			d.set(e)
		}
		d.state.after(e)
		d.forget()
	}
	return d.lines
}

type dataJudge struct {
	state     truth                        // before the event that is looked at
	passwords map[string]map[string]string // by workload, for as long as it has a claim
	lines     []string
}

func (d *dataJudge) wrong(e watcher.Event, format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf("%s %s at %s: %s", e.Object.GetKind(), e.Object.GetName(), e.ResourceVersion, fmt.Sprintf(format, args...)))
}

// claim wants one that begins to go to have been asked for, and none to be the second of
// its kind.
func (d *dataJudge) claim(e watcher.Event) {
	before := d.state[keyOf("PersistentVolumeClaim", e.Object.GetName())]
	if leaves(e) && (before == nil || before.GetDeletionTimestamp() == nil) {
		if why := d.state.keeps(e.Object); why != "" {
			d.wrong(e, "its data goes, and %s", why)
		}
		return
	}
	place := placeOf(e.Object)
	for _, other := range d.state.claims() {
		if place != "" && other.GetUID() != e.UID && placeOf(other) == place {
			d.wrong(e, "%s has the data of the same pod", other.GetName())
		}
	}
}

func leaves(e watcher.Event) bool {
	return e.Type == watch.Deleted || e.Object.GetDeletionTimestamp() != nil
}

// keeps says why a claim or credentials have to stay, or nothing.
func (t truth) keeps(kept *unstructured.Unstructured) string {
	app, ok := t.ownedBy(ownerUID(kept))
	switch {
	case !ok:
		return "it is not of an application that could have asked for it"
	case app.policy != appsapi.DeletionDelete:
		return "the application says that data is kept"
	case kept.GetLabels()[appsapi.LabelRetained] != "":
		return "it was kept on purpose before"
	case app.object.GetDeletionTimestamp() != nil:
		return ""
	}
	for _, p := range app.parts {
		if p.stateful != nil && p.is(kept) {
			return fmt.Sprintf("component %q is in the spec", p.selector)
		}
	}
	return ""
}

// placeOf is what a claim has the data of: application, component, volume and number of the
// pod. It is empty for one that does not say, or that others may start beside.
func placeOf(claim *unstructured.Unstructured) string {
	l := claim.GetLabels()
	set := strings.TrimPrefix(l[appsapi.LabelWorkload], "statefulset-")
	volume, pod, ok := strings.Cut(claim.GetName(), "-"+set+"-")
	if !ok || set == "" || l[appsapi.LabelComponent] == "" || claim.GetAnnotations()[appsapi.AnnotationReleased] == "true" {
		return ""
	}
	return strings.Join([]string{l[appsapi.LabelOwnerKind], l[appsapi.LabelInstance], l[appsapi.LabelComponent], volume, pod}, "/")
}

// secret wants a password to stay what it is, and to stay, for as long as what it opens.
func (d *dataJudge) secret(e watcher.Event) {
	workload := e.Object.GetLabels()[appsapi.LabelWorkload]
	if workload == "" {
		return
	}
	used := d.state.hasClaim(workload)
	if leaves(e) {
		if used {
			d.wrong(e, "the password goes before what it opens")
		}
		return
	}
	content := map[string]string{}
	data, _, _ := unstructured.NestedStringMap(e.Object.Object, "data")
	maps.Copy(content, data)
	switch known, ok := d.passwords[workload]; {
	case ok && used && unforeseen(known, content):
		d.wrong(e, "the password has changed, and there is data that only the old one opens")
	case !ok && used:
		d.wrong(e, "a password is made up for data that is there already")
	}
	d.passwords[workload] = content
}

// pending is how the key of a password begins that another one is to become.
const pending = "pending-"

// unforeseen says whether a password is another one, which was not written down before as the one
// that it would become. Hashes follow from passwords.
func unforeseen(known, now map[string]string) bool {
	for key, was := range known {
		if strings.HasPrefix(key, pending) || strings.HasSuffix(key, "-hash") || now[key] == was {
			continue
		}
		if now[key] == "" || now[key] != known[pending+key] {
			return true
		}
	}
	return false
}

// set wants a component to begin with the data that it has.
func (d *dataJudge) set(e watcher.Event) {
	if e.Type != watch.Added || e.Listed {
		return
	}
	app, ok := d.state.ownedBy(controllerOf(e.Object).UID)
	if !ok {
		return
	}
	for _, claim := range d.state.claims() {
		l := claim.GetLabels()
		if l[appsapi.LabelOwnerKind] != app.object.GetKind() || l[appsapi.LabelInstance] != app.object.GetName() ||
			l[appsapi.LabelWorkload] == e.Object.GetLabels()[appsapi.LabelWorkload] || claim.GetAnnotations()[appsapi.AnnotationReleased] == "true" {
			continue
		}
		for _, p := range app.parts {
			if p.is(e.Object) && p.is(claim) {
				d.wrong(e, "begins beside %s, which has the data of its component", claim.GetName())
			}
		}
	}
}

// forget drops the passwords that open nothing.
func (d *dataJudge) forget() {
	for workload := range d.passwords {
		if !d.state.hasClaim(workload) && !d.state.hasSecret(workload) {
			delete(d.passwords, workload)
		}
	}
}

func (t truth) claims() []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range t {
		if o.GetKind() == "PersistentVolumeClaim" {
			all = append(all, o)
		}
	}
	return all
}

func (t truth) hasClaim(workload string) bool { return t.has("PersistentVolumeClaim", workload) }

func (t truth) hasSecret(workload string) bool { return t.has("Secret", workload) }

// has says whether there is something of a kind that belongs to a workload.
func (t truth) has(kind, workload string) bool {
	for _, o := range t {
		if o.GetKind() == kind && o.GetLabels()[appsapi.LabelWorkload] == workload {
			return true
		}
	}
	return false
}

// mounts says whether a pod that has not ended has a claim.
func (t truth) mounts(claim string) string {
	for _, o := range t {
		if o.GetKind() != "Pod" {
			continue
		}
		pod := read[corev1.Pod](o)
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
