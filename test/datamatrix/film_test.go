package datamatrix

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// mark is what the player began at a version of the cluster.
type mark struct {
	at   int64
	what string
}

func (p *player) mark(what string) {
	p.Helper()
	p.marks = append(p.marks, mark{p.moment(), what})
}

// last is what the player began last.
func (s *story) last() string { return s.marks[len(s.marks)-1].what }

// film tells what happened in the order in which it happened, without what changes nothing
// that it tells of.
func (s *story) film(events []watcher.Event) string {
	var b strings.Builder
	marks, before := slices.Clone(s.marks), map[string]string{}
	for _, e := range inOrder(events) {
		for len(marks) > 0 && marks[0].at < version(e.ResourceVersion) {
			fmt.Fprintf(&b, "-- %s\n", marks[0].what)
			marks = marks[1:]
		}
		scene := describe(e)
		key := e.Resource.Resource + e.Key
		if e.Type == watch.Modified && before[key] == scene {
			continue
		}
		before[key] = scene
		fmt.Fprintf(&b, "%8s %s %-8s %s %s %s\n", e.ResourceVersion, e.Seen.Format("15:04:05.000"), e.Type, e.Resource.Resource, e.Object.GetName(), scene)
	}
	for _, m := range marks {
		fmt.Fprintf(&b, "-- %s\n", m.what)
	}
	return b.String()
}

// describe is what matters of an object.
func describe(e watcher.Event) string {
	out := []string{short(string(e.UID))}
	if e.Object.GetDeletionTimestamp() != nil {
		out = append(out, "being deleted")
	}
	l := e.Object.GetLabels()
	whose := fmt.Sprintf("of %s/%s", l[appsapi.LabelComponent], short(l[appsapi.LabelOwnerUID]))
	if l[appsapi.LabelRetained] != "" {
		whose += " retained"
	}
	switch e.Resource {
	case claims:
		out = append(out, whose, describeClaim(e.Object))
	case secrets:
		sum := sha256.Sum256(typed[corev1.Secret](e.Object).Data["password"])
		out = append(out, whose, fmt.Sprintf("password #%x", sum[:3]))
	case sets:
		set := typed[appsv1.StatefulSet](e.Object)
		out = append(out, whose, fmt.Sprintf("%d/%d ready, claims of %s", set.Status.ReadyReplicas, *set.Spec.Replicas,
			set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage()))
	case stacks:
		out = append(out, describeStack(typed[appsapi.AppStack](e.Object)))
	}
	return strings.Join(out, ", ")
}

func short(uid string) string { return uid[:min(len(uid), 6)] }

func describeClaim(u *unstructured.Unstructured) string {
	claim, class := typed[corev1.PersistentVolumeClaim](u), ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return fmt.Sprintf("%s of %s %s", claim.Status.Capacity.Storage(), claim.Spec.Resources.Requests.Storage(), class)
}

func describeStack(stack *appsapi.AppStack) string {
	var names []string
	for i := range stack.Spec.Components {
		names = append(names, stack.Spec.Components[i].Name)
	}
	text := fmt.Sprintf("generation %d with %v", stack.Generation, names)
	if c := meta.FindStatusCondition(stack.Status.Conditions, "Ready"); c != nil {
		text += fmt.Sprintf(", Ready of %d is %s/%s: %s", c.ObservedGeneration, c.Status, c.Reason, c.Message)
	}
	return text
}
