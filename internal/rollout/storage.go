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

// ClaimResize is a claim that has to ask for another size.
type ClaimResize struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// How a volume grows, each step decided from the claims and the set as they are:
//
//	spec says more ──► each claim asks for it ──► the set is made anew around its pods,
//	                   (refused: said, nothing    with the new size for later ones
//	                    else happens)             the storage grows the volumes meanwhile

// planStorage decides about the volumes of a component.
func (p *planner) planStorage(c *desired.Component, set *appsv1.StatefulSet, d *DataPlan) {
	if set != nil {
		if v := volumeSetConflict(c, set); v != nil {
			d.PodsAllowed, d.Health = false, v
			return
		}
	}
	var resizing, unbound *health.Result
	for i := range desiredReplicas(c, set) {
		for _, s := range c.Data.Storage {
			claim := c.Data.Claim(desired.ClaimName(s.Name, c.Workload.Name, i))
			if claim == nil {
				continue
			}
			if claim.Status.Phase != corev1.ClaimBound {
				unbound = cmp.Or(unbound, unboundClaimConflict(s, claim))
				d.PendingVolume = cmp.Or(d.PendingVolume, waitingForVolume(claim))
				continue
			}
			resize, result := planResize(s, claim)
			switch {
			case result != nil && result.Status == health.Degraded:
				d.ResizeClaims, d.Health = nil, result
				return
			case resizing == nil:
				resizing = result
			}
			if resize {
				d.ResizeClaims = append(d.ResizeClaims, ClaimResize{claim, s.Size})
			}
		}
	}
	d.Health = cmp.Or(unbound, resizing)
	// Only once every claim was asked, and not together with anything else: the pods must
	// find the template that they were made of.
	d.RecreateStatefulSet = set != nil && len(d.ResizeClaims) == 0 && set.DeletionTimestamp == nil && claimTemplatesDiffer(c, set) && !ReplacesPods(*c, set) &&
		(c.Data.Replicas != nil || set.Status.Replicas == desiredReplicas(c, set)) // else it is the pods that tell how many
}

// unboundClaimConflict says what to do about a claim that has no volume yet, and so no data, and asks for
// something else than the spec. Kubernetes does not let it change its mind.
func unboundClaimConflict(s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) *health.Result {
	if claim.Status.Phase == corev1.ClaimLost {
		return degraded(appsapi.ReasonDataConflict, fmt.Sprintf("The volume of PersistentVolumeClaim %s/%s is gone: there is no PersistentVolume %s. Restore that from a backup of the cluster or of the storage",
			claim.Namespace, claim.Name, claim.Spec.VolumeName))
	}
	if claimMatches(s, claim.Spec) {
		return nil // its pod tells what it waits for
	}
	return degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("PersistentVolumeClaim %s/%s has no volume yet, and asks for other storage than %q in the spec. "+
		"Nothing is on it; have it made anew: kubectl annotate pvc %s -n %s %s=true && kubectl delete pvc %s -n %s",
		claim.Namespace, claim.Name, s.Name, claim.Name, claim.Namespace, appsapi.AnnotationConfirmDelete, claim.Name, claim.Namespace))
}

func waitingForVolume(claim *corev1.PersistentVolumeClaim) *health.Result {
	return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing,
		Message: fmt.Sprintf("PersistentVolumeClaim %s/%s waits for its volume", claim.Namespace, claim.Name)}
}

// claimMatches says whether a claim is what the spec wants.
func claimMatches(s appsapi.StorageSpec, claim corev1.PersistentVolumeClaimSpec) bool {
	size := claim.Resources.Requests[corev1.ResourceStorage]
	sameClass := s.ClassName == nil || claim.StorageClassName != nil && *claim.StorageClassName == *s.ClassName
	return size.Cmp(s.Size) == 0 && sameClass && slices.Contains(claim.AccessModes, desired.AccessMode(s))
}

// planResize decides about the claim of a volume.
func planResize(s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) (resize bool, v *health.Result) {
	requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", claim.Namespace, claim.Name)
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return false, degraded(appsapi.ReasonDataConflict, fmt.Sprintf("%s is being deleted, and its data with it as soon as its pod ends. Save the data now; nothing can keep the volume", name))
	case s.ClassName != nil && *s.ClassName != class:
		return false, degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("%s was made by StorageClass %q and cannot move to %q. Set the class of storage %q back, or copy the data into a new component", name, class, *s.ClassName, s.Name))
	case !slices.Contains(claim.Spec.AccessModes, desired.AccessMode(s)):
		return false, degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("%s was made with the access mode %s, which cannot change. Set that of storage %q back, or copy the data into a new component", name, claim.Spec.AccessModes[0], s.Name))
	}
	switch s.Size.Cmp(requested) {
	case 1:
		return true, resizeInProgress(name, capacity, s.Size)
	case -1:
		if s.Size.Cmp(capacity) > 0 { // asked for too much before
			return true, resizeInProgress(name, capacity, s.Size)
		}
		if requested.Cmp(capacity) > 0 {
			return false, degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("%s has %s and asks for %s, and Kubernetes lets it ask for less only if that is more than it has. Set the size of storage %q to more than %s", name, capacity.String(), requested.String(), s.Name, capacity.String()))
		}
		return false, degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("%s has %s, and a volume cannot shrink to %s. Set the size of storage %q back to %s, or copy the data into a new component", name, capacity.String(), s.Size.String(), s.Name, requested.String()))
	}
	if capacity.Cmp(s.Size) >= 0 {
		return false, nil
	}
	if resizeStatus := infeasible(claim); resizeStatus != "" {
		return false, degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("The storage cannot make %s as large as %s. Set the size of storage %q to less, but more than %s, or make room there", name, s.Size.String(), s.Name, capacity.String()))
	}
	return false, resizeInProgress(name, capacity, s.Size)
}

func resizeInProgress(name string, from, to resource.Quantity) *health.Result {
	return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonStorageResizing,
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

// volumeSetConflict refuses other volumes than the pods of a set have: Kubernetes would neither
// add nor remove one for as long as they run.
func volumeSetConflict(c *desired.Component, set *appsv1.StatefulSet) *health.Result {
	var current, want []string
	for i := range set.Spec.VolumeClaimTemplates {
		current = append(current, set.Spec.VolumeClaimTemplates[i].Name)
	}
	for _, s := range c.Data.Storage {
		want = append(want, s.Name)
	}
	slices.Sort(current)
	slices.Sort(want)
	if slices.Equal(current, want) {
		return nil
	}
	return degraded(appsapi.ReasonStorageChangeRejected, fmt.Sprintf("The pods of StatefulSet %s/%s have the volumes %v, and none can be added or removed. Set storage back, or make a new component with %v",
		set.Namespace, set.Name, current, want))
}

// claimTemplatesDiffer says whether the claims of later pods would be different from what is
// wanted.
func claimTemplatesDiffer(c *desired.Component, set *appsv1.StatefulSet) bool {
	for _, s := range c.Data.Storage {
		for i := range set.Spec.VolumeClaimTemplates {
			// A claim that was made without a class has got one; a template has not.
			if t := &set.Spec.VolumeClaimTemplates[i]; t.Name == s.Name && (!claimMatches(s, t.Spec) || s.ClassName == nil && t.Spec.StorageClassName != nil) {
				return true
			}
		}
	}
	return false
}
