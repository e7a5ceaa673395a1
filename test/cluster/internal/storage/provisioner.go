package storage

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of the protocol between the scheduler, the PV controller and provisioners, which are not defined in a
// small Go package.
const (
	annSelectedNode       = "volume.kubernetes.io/selected-node"
	annStorageProvisioner = "volume.kubernetes.io/storage-provisioner"
	annProvisionedBy      = "pv.kubernetes.io/provisioned-by"
)

// paramFSType is the StorageClass parameter for the filesystem.
const paramFSType = "fsType"

// minSize is the minimum of mkfs.xfs. It also applies to ext4, so that sizes do not depend on the class.
var minSize = resource.MustParse("300Mi")

// provision creates the volume of an unbound claim if it is due.
func (c *controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	f := collectFaults(claim, nil, class)
	if !provisioningDue(claim, class, c.node) || f.value(HangProvision) != "" {
		return nil
	}
	pv, err := c.createVolume(ctx, claim, class, f)
	if apierrors.IsAlreadyExists(err) {
		return nil // created earlier for the same claim, whose UID is in the name; the PV controller binds it
	}
	if err != nil {
		c.recorder.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed",
			"failed to provision volume with StorageClass %q: %v", class.Name, err)
		return fmt.Errorf("provision volume for claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	c.recorder.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", pv.Name)
	c.log.InfoContext(ctx, "Volume provisioned", "volume", pv.Name, "claim", claim.Namespace+"/"+claim.Name,
		"size", pv.Spec.Capacity.Storage().String())
	return nil
}

// createVolume creates the file before the PV: the kubelet may mount as soon as the PV exists.
func (c *controller) createVolume(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, f faults) (*corev1.PersistentVolume, error) {
	if msg := f.value(FailProvision); msg != "" {
		return nil, errors.New(msg)
	}
	if err := checkSupported(claim, class); err != nil {
		return nil, err
	}
	pv := newVolume(claim, class, c.node)
	size := pv.Spec.Capacity.Storage()
	if msg, err := f.exceeds(MaxSize, *size); err != nil {
		return nil, err
	} else if msg != "" {
		return nil, errors.New(msg)
	}
	if err := c.disk.create(ctx, pv.Name, size.Value()); err != nil {
		return nil, err
	}
	return c.client.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
}

// provisioningDue reports whether the PV controller has delegated the claim to this provisioner. It first searches an
// existing volume, and with WaitForFirstConsumer the scheduler first selects a node for the pod.
func provisioningDue(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) bool {
	if claim.Spec.VolumeName != "" || claim.Annotations[annStorageProvisioner] != DriverName {
		return false
	}
	selected := claim.Annotations[annSelectedNode]
	if selected == "" {
		return class.VolumeBindingMode == nil || *class.VolumeBindingMode == storagev1.VolumeBindingImmediate
	}
	return selected == node
}

// checkSupported returns an error for unsupported features.
func checkSupported(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) error {
	fsType := class.Parameters[paramFSType]
	switch {
	case claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock:
		return errors.New("raw block volumes are not supported")
	case claim.Spec.Selector != nil:
		return errors.New("claim selectors are not supported")
	case claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil:
		return errors.New("volumes with a data source are not supported")
	case fsType != "" && fsType != fsXFS && fsType != fsExt4:
		return fmt.Errorf("filesystem %q is not supported, use %s or %s", fsType, fsXFS, fsExt4)
	}
	return nil
}

// volumeSize returns the size of the volume for a claim.
func volumeSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(minSize) < 0 {
		return minSize.DeepCopy()
	}
	return size.DeepCopy()
}

// newVolume builds the PV of a claim. The claimRef has the UID of the claim, so that no later claim of the same name is
// bound; it has no resourceVersion, which would be outdated.
func newVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	fsType := class.Parameters[paramFSType]
	if fsType == "" {
		fsType = fsXFS
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{annProvisionedBy: DriverName},
			Finalizers:  []string{Finalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: volumeSize(claim)},
			AccessModes: claim.Spec.AccessModes,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1",
				Kind:       "PersistentVolumeClaim",
				Namespace:  claim.Namespace,
				Name:       claim.Name,
				UID:        claim.UID,
			},
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              class.Name,
			MountOptions:                  class.MountOptions,
			VolumeMode:                    &mode,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key:      corev1.LabelHostname,
						Operator: corev1.NodeSelectorOpIn,
						Values:   []string{node},
					}},
				}},
			}},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver:       DriverName,
				VolumeHandle: name,
				FSType:       fsType,
			}},
		},
	}
}
