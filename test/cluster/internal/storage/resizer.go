package storage

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Expansion is coordinated through allocatedResourceStatuses.storage in the status of the claim:
//
//	""                          a larger request          -> resizer enlarges the file, sets NodeResizePending
//	NodeResizePending           kubelet expands           -> NodeResizeInProgress -> "" with a new capacity
//	NodeResizeInfeasible        kubelet gave up           -> resizer retries after a change of request or fault
//	ControllerResizeInfeasible  resizer gave up           -> the same
//
// A retry may use a smaller size than before, but more than the current capacity.

// expand expands the volume of a bound claim up to the step of the kubelet.
func (c *controller) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, class *storagev1.StorageClass) error {
	f := collectFaults(claim, pv, class)
	allowed := class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
	if !allowed || !expansionDue(claim, f) || f.value(HangExpand) != "" {
		return nil
	}
	size := volumeSize(claim)
	msg, err := infeasibleReason(size, f, FailExpandController, MaxSize)
	if err != nil {
		return c.expansionFailed(claim, pv, err)
	}
	if msg != "" {
		return c.reportInfeasible(ctx, claim, pv, size, msg)
	}

	c.recorder.Eventf(claim, corev1.EventTypeNormal, "Resizing", "External resizer is resizing volume %s", pv.Name)
	if err := c.disk.enlarge(ctx, pv.Spec.CSI.VolumeHandle, size.Value()); err != nil {
		return c.expansionFailed(claim, pv, err)
	}
	if err := c.setCapacity(ctx, pv, size); err != nil {
		return err
	}
	if err := c.patchStatus(ctx, claim, pendingPatch(claim, size, c.now())); err != nil {
		return err
	}
	c.recorder.Event(claim, corev1.EventTypeNormal, "FileSystemResizeRequired", "Require file system resize of volume on node")
	c.log.InfoContext(ctx, "Volume enlarged", "volume", pv.Name, "claim", claim.Namespace+"/"+claim.Name, "size", size.String())
	return nil
}

// expansionDue reports whether the resizer has to act.
func expansionDue(claim *corev1.PersistentVolumeClaim, f faults) bool {
	have, bound := claim.Status.Capacity[corev1.ResourceStorage]
	want := volumeSize(claim)
	if !bound || claim.Status.Phase != corev1.ClaimBound || want.Cmp(have) <= 0 {
		return false
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress:
		// Even if the request has changed: like the real resizer, wait until the kubelet has succeeded or failed.
		return false
	case corev1.PersistentVolumeClaimNodeResizeInfeasible:
		// Retrying the same size while the fault exists is pointless.
		allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
		msg, err := infeasibleReason(want, f, FailExpandNode, MaxSizeNode)
		return want.Cmp(allocated) != 0 || msg == "" && err == nil
	}
	return true
}

// infeasibleReason returns why a size is infeasible because of a switch, or "".
func infeasibleReason(size resource.Quantity, f faults, fail, limit string) (string, error) {
	if msg := f.value(fail); msg != "" {
		return msg, nil
	}
	return f.exceeds(limit, size)
}

// reportInfeasible reports an infeasible expansion once. It is retried only after a change of the claim or its class.
func (c *controller) reportInfeasible(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, size resource.Quantity, msg string) error {
	if infeasibleReported(claim, size, msg) {
		return nil
	}
	if err := c.patchStatus(ctx, claim, infeasiblePatch(claim, size, msg, c.now())); err != nil {
		return err
	}
	c.resizeFailedEvent(claim, pv, msg)
	return nil
}

// expansionFailed reports a failure that is retried.
func (c *controller) expansionFailed(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, err error) error {
	c.resizeFailedEvent(claim, pv, err.Error())
	return fmt.Errorf("grow volume %s of claim %s/%s: %w", pv.Name, claim.Namespace, claim.Name, err)
}

func (c *controller) resizeFailedEvent(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, msg string) {
	c.recorder.Eventf(claim, corev1.EventTypeWarning, "VolumeResizeFailed", "resize volume %q by resizer %q failed: %s", pv.Name, DriverName, msg)
}

// setCapacity sets the size in the PV, which the kubelet compares with the mounted size. After a failed expansion on the
// node it may be smaller than before.
func (c *controller) setCapacity(ctx context.Context, pv *corev1.PersistentVolume, size resource.Quantity) error {
	if pv.Spec.Capacity.Storage().Cmp(size) == 0 {
		return nil
	}
	patch := mustMarshal(map[string]any{"spec": map[string]any{"capacity": map[string]string{"storage": size.String()}}})
	if _, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("set capacity of PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

func (c *controller) patchStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, patch statusPatch) error {
	_, err := c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Patch(ctx, claim.Name, types.MergePatchType, mustMarshal(patch), metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch status of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// statusPatch has the resourceVersion of the claim as a precondition: the kubelet writes the same fields, and a late
// update would start another expansion.
type statusPatch struct {
	Metadata patchVersion                       `json:"metadata"`
	Status   corev1.PersistentVolumeClaimStatus `json:"status"`
}

type patchVersion struct {
	ResourceVersion string `json:"resourceVersion"`
}

// pendingPatch sets NodeResizePending.
func pendingPatch(claim *corev1.PersistentVolumeClaim, size resource.Quantity, now time.Time) statusPatch {
	return resizePatch(claim, size, corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimCondition{
		Type:               corev1.PersistentVolumeClaimFileSystemResizePending,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now),
		Message:            "Waiting for user to (re-)start a pod to finish file system resize of volume on node.",
	})
}

// infeasiblePatch sets ControllerResizeInfeasible.
func infeasiblePatch(claim *corev1.PersistentVolumeClaim, size resource.Quantity, msg string, now time.Time) statusPatch {
	return resizePatch(claim, size, corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimCondition{
		Type:               corev1.PersistentVolumeClaimControllerResizeError,
		Status:             corev1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(now),
		Message:            msg,
	})
}

// infeasibleReported reports whether the claim already has this status.
func infeasibleReported(claim *corev1.PersistentVolumeClaim, size resource.Quantity, msg string) bool {
	allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
	if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimControllerResizeInfeasible ||
		allocated.Cmp(size) != 0 {
		return false
	}
	return slices.ContainsFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimControllerResizeError && c.Message == msg
	})
}

// resizePatch replaces all conditions about expansion, so that outdated errors are removed. It contains all other
// conditions, because a merge patch replaces the whole list.
func resizePatch(claim *corev1.PersistentVolumeClaim, size resource.Quantity, status corev1.ClaimResourceStatus, condition corev1.PersistentVolumeClaimCondition) statusPatch {
	conditions := slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c corev1.PersistentVolumeClaimCondition) bool {
		return slices.Contains(resizeConditions, c.Type)
	})
	return statusPatch{
		Metadata: patchVersion{ResourceVersion: claim.ResourceVersion},
		Status: corev1.PersistentVolumeClaimStatus{
			AllocatedResources:        corev1.ResourceList{corev1.ResourceStorage: size},
			AllocatedResourceStatuses: map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status},
			Conditions:                append(conditions, condition),
		},
	}
}

var resizeConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing,
	corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError,
	corev1.PersistentVolumeClaimNodeResizeError,
}
