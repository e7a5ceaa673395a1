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

// step is the name of a step and the cluster version at its start.
type step struct {
	version int64
	name    string
}

func (p *stackDriver) beginStep(name string) {
	p.Helper()
	p.steps = append(p.steps, step{p.clusterVersion(), name})
}

func (s *history) currentStep() string { return s.steps[len(s.steps)-1].name }

// timeline lists the events in order, without updates that change nothing in their description.
func (s *history) timeline(events []watcher.Event) string {
	var b strings.Builder
	steps, before := slices.Clone(s.steps), map[string]string{}
	for _, e := range sortByVersion(events) {
		for len(steps) > 0 && steps[0].version < parseVersion(e.ResourceVersion) {
			fmt.Fprintf(&b, "-- %s\n", steps[0].name)
			steps = steps[1:]
		}
		description := describeEvent(e)
		key := e.Resource.Resource + e.Key
		if e.Type == watch.Modified && before[key] == description {
			continue
		}
		before[key] = description
		fmt.Fprintf(&b, "%8s %s %-8s %s %s %s\n", e.ResourceVersion, e.ObservedAt.Format("15:04:05.000"), e.Type, e.Resource.Resource, e.Object.GetName(), description)
	}
	for _, m := range steps {
		fmt.Fprintf(&b, "-- %s\n", m.name)
	}
	return b.String()
}

// describeEvent returns the relevant fields of an object.
func describeEvent(e watcher.Event) string {
	out := []string{shortUID(string(e.UID))}
	if e.Object.GetDeletionTimestamp() != nil {
		out = append(out, "being deleted")
	}
	l := e.Object.GetLabels()
	owner := fmt.Sprintf("of %s/%s", l[appsapi.LabelComponent], shortUID(l[appsapi.DefaultKeys.OwnerUID]))
	if l[appsapi.DefaultKeys.Retained] != "" {
		owner += " retained"
	}
	switch e.Resource {
	case claimResource:
		out = append(out, owner, describeClaim(e.Object))
	case secretResource:
		sum := sha256.Sum256(fromUnstructured[corev1.Secret](e.Object).Data["password"])
		out = append(out, owner, fmt.Sprintf("password #%x", sum[:3]))
	case statefulSetResource:
		set := fromUnstructured[appsv1.StatefulSet](e.Object)
		out = append(out, owner, fmt.Sprintf("%d/%d ready, claims of %s", set.Status.ReadyReplicas, *set.Spec.Replicas,
			set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage()))
	case stackResource:
		out = append(out, describeStack(fromUnstructured[appsapi.AppStack](e.Object)))
	}
	return strings.Join(out, ", ")
}

func shortUID(uid string) string { return uid[:min(len(uid), 6)] }

func describeClaim(u *unstructured.Unstructured) string {
	claim, class := fromUnstructured[corev1.PersistentVolumeClaim](u), ""
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
