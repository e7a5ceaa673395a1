package rollout

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// Growth is a claim that has to ask for another size.
type Growth struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// How a volume grows, each step decided from the claims and the set as they are:
//
//	spec says more ──► each claim asks for it ──► the set is made anew around its pods,
//	                   (refused: said, nothing    with the new size for later ones
//	                    else happens)             the storage grows the volumes meanwhile

// storage decides about the volumes of a component.
func (p *planner) storage(c *desired.Component, set *appsv1.StatefulSet, d *Data) {
	if set != nil {
		if v := sameVolumes(c, set); v != nil {
			d.Start, d.Verdict = false, v
			return
		}
	}
	var resizing, unbound *health.Verdict
	for i := range wanted(c, set) {
		for _, s := range c.Data.Storage {
			claim := c.Data.Claim(desired.ClaimName(s.Name, c.Workload.Name, i))
			if claim == nil {
				continue
			}
			if claim.Status.Phase != corev1.ClaimBound {
				unbound = cmp.Or(unbound, empty(s, claim))
				d.Waits = cmp.Or(d.Waits, waits(claim))
				continue
			}
			grow, verdict := volume(s, claim)
			switch {
			case verdict != nil && verdict.Status == health.Degraded:
				d.Grow, d.Verdict = nil, verdict
				return
			case resizing == nil:
				resizing = verdict
			}
			if grow {
				d.Grow = append(d.Grow, Growth{claim, s.Size})
			}
		}
	}
	d.Verdict = cmp.Or(unbound, resizing)
	// Only once every claim was asked, and not together with anything else: the pods must
	// find the template that they were made of.
	d.Renew = set != nil && len(d.Grow) == 0 && set.DeletionTimestamp == nil && otherTemplates(c, set) && !ReplacesPods(*c, set) &&
		(c.Data.Replicas != nil || set.Status.Replicas == wanted(c, set)) // else it is the pods that tell how many
}

// empty says what to do about a claim that has no volume yet, and so no data, and asks for
// something else than the spec. Kubernetes does not let it change its mind.
func empty(s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) *health.Verdict {
	if claim.Status.Phase == corev1.ClaimLost {
		return refused(appsapi.ReasonDataConflict, fmt.Sprintf("The volume of PersistentVolumeClaim %s/%s is gone: there is no PersistentVolume %s. Restore that from a backup of the cluster or of the storage",
			claim.Namespace, claim.Name, claim.Spec.VolumeName))
	}
	if sameClaim(s, claim.Spec) {
		return nil // its pod tells what it waits for
	}
	return refused(appsapi.ReasonStorageRefused, fmt.Sprintf("PersistentVolumeClaim %s/%s has no volume yet, and asks for other storage than %q in the spec. "+
		"Nothing is on it; have it made anew: kubectl annotate pvc %s -n %s %s=true && kubectl delete pvc %s -n %s",
		claim.Namespace, claim.Name, s.Name, claim.Name, claim.Namespace, appsapi.AnnotationConfirmDelete, claim.Name, claim.Namespace))
}

func waits(claim *corev1.PersistentVolumeClaim) *health.Verdict {
	return &health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonProgressing,
		Message: fmt.Sprintf("PersistentVolumeClaim %s/%s waits for its volume", claim.Namespace, claim.Name)}
}

// sameClaim says whether a claim is what the spec wants.
func sameClaim(s appsapi.StorageSpec, claim corev1.PersistentVolumeClaimSpec) bool {
	size := claim.Resources.Requests[corev1.ResourceStorage]
	sameClass := s.ClassName == nil || claim.StorageClassName != nil && *claim.StorageClassName == *s.ClassName
	return size.Cmp(s.Size) == 0 && sameClass && slices.Contains(claim.AccessModes, desired.AccessMode(s))
}

// volume decides about the claim of a volume.
func volume(s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) (grow bool, v *health.Verdict) {
	asks, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", claim.Namespace, claim.Name)
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return false, refused(appsapi.ReasonDataConflict, fmt.Sprintf("%s is being deleted, and its data with it as soon as its pod ends. Save the data now; nothing can keep the volume", name))
	case s.ClassName != nil && *s.ClassName != class:
		return false, refused(appsapi.ReasonStorageRefused, fmt.Sprintf("%s was made by StorageClass %q and cannot move to %q. Set the class of storage %q back, or copy the data into a new component", name, class, *s.ClassName, s.Name))
	case !slices.Contains(claim.Spec.AccessModes, desired.AccessMode(s)):
		return false, refused(appsapi.ReasonStorageRefused, fmt.Sprintf("%s was made with the access mode %s, which cannot change. Set that of storage %q back, or copy the data into a new component", name, claim.Spec.AccessModes[0], s.Name))
	}
	switch s.Size.Cmp(asks) {
	case 1:
		return true, resizingTo(name, has, s.Size)
	case -1:
		if s.Size.Cmp(has) > 0 { // asked for too much before
			return true, resizingTo(name, has, s.Size)
		}
		if asks.Cmp(has) > 0 {
			return false, refused(appsapi.ReasonStorageRefused, fmt.Sprintf("%s has %s and asks for %s, and Kubernetes lets it ask for less only if that is more than it has. Set the size of storage %q to more than %s", name, has.String(), asks.String(), s.Name, has.String()))
		}
		return false, refused(appsapi.ReasonStorageRefused, fmt.Sprintf("%s has %s, and a volume cannot shrink to %s. Set the size of storage %q back to %s, or copy the data into a new component", name, has.String(), s.Size.String(), s.Name, asks.String()))
	}
	if has.Cmp(s.Size) >= 0 {
		return false, nil
	}
	if why := infeasible(claim); why != "" {
		return false, refused(appsapi.ReasonStorageRefused, fmt.Sprintf("The storage cannot make %s as large as %s. Set the size of storage %q to less, but more than %s, or make room there", name, s.Size.String(), s.Name, has.String()))
	}
	return false, resizingTo(name, has, s.Size)
}

func resizingTo(name string, from, to resource.Quantity) *health.Verdict {
	return &health.Verdict{Status: health.Progressing, Reason: appsapi.ReasonStorageResizing,
		Message: fmt.Sprintf("%s grows from %s to %s", name, from.String(), to.String())}
}

// infeasible is the state of a growth that those who make volumes have given up on.
func infeasible(claim *corev1.PersistentVolumeClaim) string {
	switch s := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; s {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return string(s)
	}
	return ""
}

// sameVolumes refuses other volumes than the pods of a set have: Kubernetes would neither
// add nor remove one for as long as they run.
func sameVolumes(c *desired.Component, set *appsv1.StatefulSet) *health.Verdict {
	var has, want []string
	for i := range set.Spec.VolumeClaimTemplates {
		has = append(has, set.Spec.VolumeClaimTemplates[i].Name)
	}
	for _, s := range c.Data.Storage {
		want = append(want, s.Name)
	}
	slices.Sort(has)
	slices.Sort(want)
	if slices.Equal(has, want) {
		return nil
	}
	return refused(appsapi.ReasonStorageRefused, fmt.Sprintf("The pods of StatefulSet %s/%s have the volumes %v, and none can be added or removed. Set storage back, or make a new component with %v",
		set.Namespace, set.Name, has, want))
}

// otherTemplates says whether the claims of later pods would be different from what is
// wanted.
func otherTemplates(c *desired.Component, set *appsv1.StatefulSet) bool {
	for _, s := range c.Data.Storage {
		for i := range set.Spec.VolumeClaimTemplates {
			// A claim that was made without a class has got one; a template has not.
			if t := &set.Spec.VolumeClaimTemplates[i]; t.Name == s.Name && (!sameClaim(s, t.Spec) || s.ClassName == nil && t.Spec.StorageClassName != nil) {
				return true
			}
		}
	}
	return false
}
