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

// disposal is what a volume's state asks of the deleter.
type disposal int

const (
	disposalKeep    disposal = iota // in use, retained, or gone already
	disposalRelease                 // drop the finalizer, leave the data
	disposalDelete                  // remove data and object
)

// disposalOf decides without a look at the disk. A bound volume is never touched, whoever deletes its PV, and one on
// its way out without our finalizer is done with.
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

// syncVolume disposes of one volume when nobody needs it any more.
func (c *controller) syncVolume(ctx context.Context, key cache.ObjectName) error {
	pv, err := c.volumes.Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // gone is what we want
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
		// Kubelet unmounts shortly after the claim is gone; only other obstacles are worth an event.
		if !errors.Is(err, errInUse) {
			c.recorder.Eventf(pv, corev1.EventTypeWarning, "VolumeFailedDelete", "%v", err)
		}
		return fmt.Errorf("delete volume %s: %w", pv.Name, err)
	}
	if err := c.removeFinalizer(ctx, pv); err != nil {
		return err
	}
	if hasFinalizer(pv) { // said once, though the cache may show the volume a few times more
		c.log.InfoContext(ctx, "Volume deleted", "volume", pv.Name)
	}
	err := c.client.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pv.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) { // it goes with its last finalizer when it was being deleted
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
	if err != nil && !apierrors.IsNotFound(err) { // a stale cache may show a volume that is already gone
		return fmt.Errorf("drop finalizer of PersistentVolume %s: %w", pv.Name, err)
	}
	return nil
}

func hasFinalizer(pv *corev1.PersistentVolume) bool { return slices.Contains(pv.Finalizers, Finalizer) }

// finalizerPatch replaces the whole list, so it carries the version it was read at: others keep finalizers there too.
func finalizerPatch(pv *corev1.PersistentVolume) []byte {
	others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool { return f == Finalizer })
	return mustMarshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": pv.ResourceVersion,
		"finalizers":      others,
	}})
}

// copyFailDelete keeps the claim's switch on the PV, because the claim is gone by the time it matters.
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

// mustMarshal encodes a patch made of plain maps, strings and API types, for which encoding cannot fail.
func mustMarshal(patch any) []byte {
	data, err := json.Marshal(patch)
	if err != nil {
		panic(err)
	}
	return data
}
