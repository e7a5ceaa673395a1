package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// disposal is the action of the deleter for a volume.
type disposal int

const (
	disposalKeep    disposal = iota // in use, retained, or already deleted
	disposalRelease                 // remove the finalizer, keep the data
	disposalDelete                  // delete data and object
)

// disposalOf decides from the state of the PV. A bound volume is never deleted, even if its PV is; a PV in deletion
// without the finalizer is done.
func disposalOf(pv *corev1.PersistentVolume) disposal {
	deleted := pv.DeletionTimestamp != nil
	retain := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	switch {
	case pv.Status.Phase == corev1.VolumeBound, deleted && !hasFinalizer(pv):
		return disposalKeep
	case deleted && retain:
		return disposalRelease
	case deleted:
		return disposalDelete
	case pv.Status.Phase == corev1.VolumeReleased && !retain:
		return disposalDelete
	}
	return disposalKeep
}

// syncVolume disposes of a volume that is no longer used.
func (c *controller) syncVolume(ctx context.Context, key cache.ObjectName) error {
	pv, err := c.volumes.Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // already deleted
	}
	if err != nil {
		return fmt.Errorf("get PersistentVolume %s: %w", key.Name, err)
	}
	if !isManaged(pv) {
		return nil
	}
	switch disposalOf(pv) {
	case disposalRelease:
		return c.removeFinalizer(ctx, pv)
	case disposalDelete:
		return c.deleteVolume(ctx, pv)
	}
	return nil
}

func (c *controller) deleteVolume(ctx context.Context, pv *corev1.PersistentVolume) error {
	if err := c.removeFile(ctx, pv); err != nil {
		// The kubelet unmounts shortly after the deletion of the claim; only other errors get an event.
		if !errors.Is(err, errInUse) {
			c.recorder.Eventf(pv, corev1.EventTypeWarning, "VolumeFailedDelete", "%v", err)
		}
		return fmt.Errorf("delete volume %s: %w", pv.Name, err)
	}
	if err := c.removeFinalizer(ctx, pv); err != nil {
		return err
	}
	if hasFinalizer(pv) { // only once, although the cache may return the volume several times
		c.log.InfoContext(ctx, "Volume deleted", "volume", pv.Name)
	}
	err := c.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pv.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) { // it may be deleted with its last finalizer
		return fmt.Errorf("delete PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

func (c *controller) removeFile(ctx context.Context, pv *corev1.PersistentVolume) error {
	f, err := c.volumeFaults(pv.Name)
	if err != nil {
		return err
	}
	if msg := f.value(FailDelete); msg != "" {
		return errors.New(msg)
	}
	return c.disk.remove(ctx, pv.Spec.CSI.VolumeHandle)
}

func (c *controller) removeFinalizer(ctx context.Context, pv *corev1.PersistentVolume) error {
	if !hasFinalizer(pv) {
		return nil
	}
	_, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, finalizerPatch(pv), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) { // a stale cache may return a deleted volume
		return fmt.Errorf("remove finalizer of PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

func hasFinalizer(pv *corev1.PersistentVolume) bool { return slices.Contains(pv.Finalizers, Finalizer) }

// finalizerPatch replaces the whole list, so it has the resourceVersion as a precondition: other controllers have
// finalizers, too.
func finalizerPatch(pv *corev1.PersistentVolume) []byte {
	others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == Finalizer })
	return mustMarshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": pv.ResourceVersion,
		"finalizers":      others,
	}})
}

// copyFailDelete copies the claim's switch to the PV, because the claim is deleted before the switch applies.
func (c *controller) copyFailDelete(ctx context.Context, claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) error {
	want, set := claim.Annotations[FailDelete]
	have, copied := pv.Annotations[FailDelete]
	if set == copied && want == have {
		return nil
	}
	value := &want
	if !set {
		value = nil // null removes the key
	}
	patch := mustMarshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{FailDelete: value}}})
	if _, err := c.client.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("copy switch %s to PersistentVolume %s: %w", FailDelete, pv.Name, err)
	}
	return nil
}

// mustMarshal encodes a patch of maps, strings and API types, which cannot fail.
func mustMarshal(patch any) []byte {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	return data
}
