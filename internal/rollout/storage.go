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

// ClaimResize is a claim whose request must change.
type ClaimResize struct {
	Claim *corev1.PersistentVolumeClaim
	Size  resource.Quantity
}

// Volume expansion. Each step is decided from the observed claims and StatefulSet:
//
//	spec requests more ──► every claim is resized ──► the StatefulSet is recreated with orphan
//	                       (rejected: reported,       propagation, so its pods keep running, with
//	                       nothing else happens)      the new size for later pods; the storage
//	                                                  expands the volumes meanwhile

// planStorage plans the volumes of a component.
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
			if neverBound(claim) && !claimMatchesTemplate(s, set, claim) {
				if claim.DeletionTimestamp == nil {
					d.ReplaceClaims = append(d.ReplaceClaims, desired.RetainedClaim(p.Owner.Keys, claim))
				}
				unbound = cmp.Or(unbound, replacingClaim(claim))
				continue
			}
			if claim.Status.Phase != corev1.ClaimBound {
				unbound = cmp.Or(unbound, unboundClaimConflict(p.Owner.Keys, s, claim))
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
	// Only after every claim was resized, and not together with a rollout: the pods must match the
	// template of the new StatefulSet.
	d.RecreateStatefulSet = set != nil && len(d.ResizeClaims) == 0 && set.DeletionTimestamp == nil && claimTemplatesDiffer(c, set) && !ReplacesPods(*c, set) &&
		(c.Data.Replicas != nil || set.Status.Replicas == desiredReplicas(c, set)) // without declared replicas, the number of existing pods is kept
	if !d.RecreateStatefulSet && (set == nil || claimTemplatesDiffer(c, set)) {
		d.ReplaceClaims = nil // they would be created from the old template again
	}
}

// neverBound reports whether a claim never had a volume and refers to no data, so that no data can be lost
// with it. A volume that it names or selects, a snapshot and another claim can have data.
func neverBound(claim *corev1.PersistentVolumeClaim) bool {
	spec := &claim.Spec
	return claim.Status.Phase == corev1.ClaimPending && spec.VolumeName == "" && spec.Selector == nil && spec.DataSource == nil && spec.DataSourceRef == nil
}

// claimMatchesTemplate reports whether an unbound claim is as the StatefulSet would create it. A claim
// without a class gets the default class, so a class that the spec no longer names shows only in the
// old template.
func claimMatchesTemplate(s appsapi.StorageSpec, set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	if !claimMatches(s, claim.Spec) {
		return false
	}
	if set == nil || s.ClassName != nil {
		return true
	}
	return !slices.ContainsFunc(set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool {
		return t.Name == s.Name && t.Spec.StorageClassName != nil
	})
}

func replacingClaim(claim *corev1.PersistentVolumeClaim) *health.Result {
	return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing, Message: fmt.Sprintf(
		"Replacing PersistentVolumeClaim %s/%s, which was never bound to a volume, because storage in the spec has changed", claim.Namespace, claim.Name)}
}

// unboundClaimConflict reports a claim that lost its volume, or that refers to data, is not bound yet and
// differs from the spec. Kubernetes does not allow the change.
func unboundClaimConflict(keys *appsapi.Keys, s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) *health.Result {
	if claim.Status.Phase == corev1.ClaimLost {
		return degradedHealth(appsapi.ReasonDataConflict, fmt.Sprintf(
			"PersistentVolumeClaim %s/%s has lost its volume: PersistentVolume %s does not exist. Restore it from a backup of "+
				"the cluster or of the storage",
			claim.Namespace, claim.Name, claim.Spec.VolumeName))
	}
	if claimMatches(s, claim.Spec) {
		return nil // the status of the pod explains why the claim is not bound
	}
	return degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
		"PersistentVolumeClaim %s/%s is not bound yet and does not match storage %q of the spec. "+
			"It refers to a volume, a snapshot or another claim, so it is not replaced; to have it recreated empty, delete it: "+
			"kubectl annotate pvc %s -n %s %s=true && kubectl delete pvc %s -n %s",
		claim.Namespace, claim.Name, s.Name, claim.Name, claim.Namespace, keys.ConfirmDelete, claim.Name, claim.Namespace))
}

func waitingForVolume(claim *corev1.PersistentVolumeClaim) *health.Result {
	return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonProgressing,
		Message: fmt.Sprintf("Waiting for PersistentVolumeClaim %s/%s to be bound to a volume", claim.Namespace, claim.Name)}
}

// claimMatches reports whether a claim matches the spec.
func claimMatches(s appsapi.StorageSpec, claim corev1.PersistentVolumeClaimSpec) bool {
	size := claim.Resources.Requests[corev1.ResourceStorage]
	sameClass := s.ClassName == nil || claim.StorageClassName != nil && *claim.StorageClassName == *s.ClassName
	return size.Cmp(s.Size) == 0 && sameClass && slices.Contains(claim.AccessModes, desired.AccessMode(s))
}

// planResize plans the claim of one volume.
func planResize(s appsapi.StorageSpec, claim *corev1.PersistentVolumeClaim) (resize bool, v *health.Result) {
	requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	name := fmt.Sprintf("PersistentVolumeClaim %s/%s", claim.Namespace, claim.Name)
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return false, degradedHealth(appsapi.ReasonDataConflict, fmt.Sprintf(
			"%s is being deleted; its data is deleted when its pod terminates. Back up the data now: the deletion cannot be "+
				"canceled", name))
	case s.ClassName != nil && *s.ClassName != class:
		return false, degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
			"%s uses StorageClass %q, which cannot be changed to %q. Revert className of storage %q, or copy the data to a new "+
				"component", name, class, *s.ClassName, s.Name))
	case !slices.Contains(claim.Spec.AccessModes, desired.AccessMode(s)):
		return false, degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
			"%s has access mode %s, which cannot be changed. Revert accessMode of storage %q, or copy the data to a new "+
				"component", name, claim.Spec.AccessModes[0], s.Name))
	}
	switch s.Size.Cmp(requested) {
	case 1:
		return true, resizeInProgress(name, capacity, s.Size)
	case -1:
		if s.Size.Cmp(capacity) > 0 { // the earlier request was too large
			return true, resizeInProgress(name, capacity, s.Size)
		}
		if requested.Cmp(capacity) > 0 {
			return false, degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
				"%s has a capacity of %s and requests %s; Kubernetes can reduce the request only to a size above the capacity. Set "+
					"the size of storage %q to more than %s", name, capacity.String(), requested.String(), s.Name, capacity.String()))
		}
		return false, degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
			"%s has a capacity of %s and cannot shrink to %s. Set the size of storage %q back to %s, or copy the data to a new "+
				"component", name, capacity.String(), s.Size.String(), s.Name, requested.String()))
	}
	if capacity.Cmp(s.Size) >= 0 {
		return false, nil
	}
	if isResizeInfeasible(claim) {
		return false, degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
			"The storage backend cannot expand %s to %s. Set the size of storage %q to a smaller value above %s, or free space "+
				"in the storage backend", name, s.Size.String(), s.Name, capacity.String()))
	}
	return false, resizeInProgress(name, capacity, s.Size)
}

func resizeInProgress(name string, from, to resource.Quantity) *health.Result {
	return &health.Result{Status: health.Progressing, Reason: appsapi.ReasonStorageResizing,
		Message: fmt.Sprintf("Expanding %s from %s to %s", name, from.String(), to.String())}
}

// isResizeInfeasible reports whether the CSI driver cannot expand the volume to the requested size.
func isResizeInfeasible(claim *corev1.PersistentVolumeClaim) bool {
	s := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	return s == corev1.PersistentVolumeClaimControllerResizeInfeasible || s == corev1.PersistentVolumeClaimNodeResizeInfeasible
}

// volumeSetConflict rejects added and removed volumes: Kubernetes does not allow such changes for
// existing pods.
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
	return degradedHealth(appsapi.ReasonStorageChangeRejected, fmt.Sprintf(
		"StatefulSet %s/%s has the volumes %v; volumes cannot be added or removed. Revert storage, or create a new "+
			"component with %v",
		set.Namespace, set.Name, current, want))
}

// claimTemplatesDiffer reports whether the claim templates differ from the spec.
func claimTemplatesDiffer(c *desired.Component, set *appsv1.StatefulSet) bool {
	for _, s := range c.Data.Storage {
		for i := range set.Spec.VolumeClaimTemplates {
			// A claim without a class gets the default class; a template does not.
			if t := &set.Spec.VolumeClaimTemplates[i]; t.Name == s.Name && (!claimMatches(s, t.Spec) || s.ClassName == nil && t.Spec.StorageClassName != nil) {
				return true
			}
		}
	}
	return false
}
