package storage

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func makeClaim(request string) *corev1.PersistentVolumeClaim {
	class := "standard"
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "data", UID: "7a1", ResourceVersion: "12",
			Annotations: map[string]string{
				"volume.kubernetes.io/storage-provisioner": "loop.storage.holdfast.dev",
				"volume.kubernetes.io/selected-node":       "node1",
			},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(request)},
			},
		},
	}
}

func makeClass(mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	policy, grows := corev1.PersistentVolumeReclaimDelete, true
	return &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: "standard"},
		Provisioner:          "loop.storage.holdfast.dev",
		ReclaimPolicy:        &policy,
		VolumeBindingMode:    &mode,
		AllowVolumeExpansion: &grows,
	}
}

func TestVolumeSize(t *testing.T) {
	for request, want := range map[string]string{
		"1":          "300Mi",
		"100Mi":      "300Mi",
		"314572799":  "300Mi",
		"300Mi":      "300Mi",
		"314572801":  "314572801",
		"1.5Gi":      "1536Mi",
		"1Ti":        "1Ti",
		"1000000000": "1G",
	} {
		got := volumeSize(makeClaim(request))
		if got.String() != want {
			t.Errorf("request %s: got %s, want %s", request, got.String(), want)
		}
	}
}

func TestNewVolume(t *testing.T) {
	const plain = `
metadata:
  name: pvc-7a1
  annotations: {pv.kubernetes.io/provisioned-by: loop.storage.holdfast.dev}
  finalizers: [storage.holdfast.dev/loop-file]
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: shop, name: data, uid: 7a1}
  persistentVolumeReclaimPolicy: Delete
  storageClassName: standard
  volumeMode: Filesystem
  nodeAffinity:
    required:
      nodeSelectorTerms:
        - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]
  csi: {driver: loop.storage.holdfast.dev, volumeHandle: pvc-7a1, fsType: xfs}
`
	for name, tc := range map[string]struct {
		class func(*storagev1.StorageClass)
		want  func(*corev1.PersistentVolume)
	}{
		"plain": {
			class: func(*storagev1.StorageClass) {},
			want:  func(*corev1.PersistentVolume) {},
		},
		"class without a policy": {
			class: func(c *storagev1.StorageClass) { c.ReclaimPolicy = nil },
			want:  func(*corev1.PersistentVolume) {},
		},
		"class with everything": {
			class: func(c *storagev1.StorageClass) {
				retain := corev1.PersistentVolumeReclaimRetain
				c.ReclaimPolicy = &retain
				c.Parameters = map[string]string{"fsType": "ext4"}
				c.MountOptions = []string{"noatime"}
			},
			want: func(pv *corev1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
				pv.Spec.CSI.FSType = "ext4"
				pv.Spec.MountOptions = []string{"noatime"}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			class := makeClass(storagev1.VolumeBindingWaitForFirstConsumer)
			tc.class(class)
			want := &corev1.PersistentVolume{}
			must(t, yaml.UnmarshalStrict([]byte(plain), want))
			tc.want(want)
			if diff := cmp.Diff(want, newVolume(makeClaim("1Gi"), class, "node1")); diff != "" {
				t.Errorf("volume (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProvisioningDue(t *testing.T) {
	annotate := func(key, value string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) { c.Annotations[key] = value }
	}
	for name, tc := range map[string]struct {
		mode storagev1.VolumeBindingMode
		edit func(*corev1.PersistentVolumeClaim)
		want bool
	}{
		"node chosen":                          {edit: func(*corev1.PersistentVolumeClaim) {}, want: true},
		"node not selected yet":                {edit: annotate("volume.kubernetes.io/selected-node", "")},
		"another node selected":                {edit: annotate("volume.kubernetes.io/selected-node", "node2")},
		"not delegated yet":                    {edit: annotate("volume.kubernetes.io/storage-provisioner", "")},
		"delegated to another provisioner":     {edit: annotate("volume.kubernetes.io/storage-provisioner", "other")},
		"bound":                                {edit: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" }},
		"immediate binding needs no node":      {mode: "Immediate", edit: annotate("volume.kubernetes.io/selected-node", ""), want: true},
		"immediate binding, not delegated yet": {mode: "Immediate", edit: annotate("volume.kubernetes.io/storage-provisioner", "")},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.mode == "" {
				tc.mode = storagev1.VolumeBindingWaitForFirstConsumer
			}
			claim := makeClaim("1Gi")
			tc.edit(claim)
			if got := provisioningDue(claim, makeClass(tc.mode), "node1"); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestCheckSupported(t *testing.T) {
	block := corev1.PersistentVolumeBlock
	for name, tc := range map[string]struct {
		edit    func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass)
		wantErr string
	}{
		"plain": {edit: func(*corev1.PersistentVolumeClaim, *storagev1.StorageClass) {}},
		"ext4": {edit: func(_ *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) {
			c.Parameters = map[string]string{"fsType": "ext4"}
		}},
		"unknown filesystem": {
			edit: func(_ *corev1.PersistentVolumeClaim, c *storagev1.StorageClass) {
				c.Parameters = map[string]string{"fsType": "zfs"}
			},
			wantErr: `filesystem "zfs" is not supported, use xfs or ext4`,
		},
		"block device": {
			edit:    func(c *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) { c.Spec.VolumeMode = &block },
			wantErr: "raw block volumes are not supported",
		},
		"selector": {
			edit: func(c *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
				c.Spec.Selector = &metav1.LabelSelector{}
			},
			wantErr: "claim selectors are not supported",
		},
		"snapshot": {
			edit: func(c *corev1.PersistentVolumeClaim, _ *storagev1.StorageClass) {
				c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "VolumeSnapshot", Name: "s"}
			},
			wantErr: "volumes with a data source are not supported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			claim, class := makeClaim("1Gi"), makeClass(storagev1.VolumeBindingImmediate)
			tc.edit(claim, class)
			got := ""
			if err := checkSupported(claim, class); err != nil {
				got = err.Error()
			}
			if got != tc.wantErr {
				t.Errorf("got error %q, want %q", got, tc.wantErr)
			}
		})
	}
}
