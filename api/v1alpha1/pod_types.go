package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodSettings are the pod settings that all types of components have in
// common.
type PodSettings struct {
	// config configures files of the container and whether changed configuration
	// replaces the pods.
	// +optional
	Config ConfigSettings `json:"config,omitzero"`

	// volumes are the volumes that are mounted into the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(o, o.mountPath == v.mountPath))",message="two volumes have the same mountPath; use another path for one of them"
	Volumes []Volume `json:"volumes,omitempty"`

	// scheduling specifies on which nodes the pods can run.
	// +optional
	Scheduling SchedulingSettings `json:"scheduling,omitzero"`

	// serviceAccountName is the ServiceAccount the pods run as. Unset: no token is
	// mounted.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName must be the name of a ServiceAccount: a-z, 0-9, - and ., starting and ending with a letter or digit"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// podLabels are additional labels of the pods, for example for a
	// NetworkPolicy. Changing them replaces the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/') && !k.startsWith('app.kubernetes.io/') && k != 'pod-template-hash')",message="labels with the prefix apps.holdfast.dev/ or app.kubernetes.io/, and pod-template-hash, are reserved for Holdfast and Kubernetes; use other names"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="a label name must have at most 63 characters of A-Z, a-z, 0-9, -, _ and ., and start and end with a letter or digit, with an optional prefix of a DNS name and /, for example team or example.com/team"
	PodLabels map[string]LabelValue `json:"podLabels,omitempty"`

	// podAnnotations are additional annotations of the pods, for example for a
	// service mesh. Changing them replaces the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/'))",message="annotations with the prefix apps.holdfast.dev/ are reserved for Holdfast; remove them"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="an annotation name must have at most 63 characters of A-Z, a-z, 0-9, -, _ and ., and start and end with a letter or digit, with an optional prefix of a DNS name and /, for example example.com/scrape"
	PodAnnotations map[string]AnnotationValue `json:"podAnnotations,omitempty"`

	// podTemplateOverlay is a strategic merge patch for the pod template, for
	// settings that have no field here: sidecars, init containers, affinity. The
	// container of the component is named app. The patch cannot set fields that
	// could give the pod privileges, for example securityContext,
	// serviceAccountName, nodeName and hostPath volumes; use the fields security
	// and serviceAccountName, which apply to all containers of the pod. The pod
	// must comply with security.level. A patch that violates this or cannot be
	// merged is reported as InvalidSpec.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplateOverlay *runtime.RawExtension `json:"podTemplateOverlay,omitempty"`

	// security specifies the privileges of the pods and the user they run as.
	// +optional
	Security SecuritySettings `json:"security,omitzero"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="a label value must consist of A-Z, a-z, 0-9, -, _ and ., and start and end with a letter or digit"
type LabelValue string

// ConfigSettings configure files of the container and whether changed
// configuration replaces the pods.
type ConfigSettings struct {
	// files are files that are mounted into the container from a ConfigMap. Store
	// secrets in a Secret and mount it with volumes.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// rollOnChange replaces the pods when a file changes, or when a ConfigMap or
	// Secret changes that env, envFrom or volumes reference. With false, the new
	// content takes effect in pods that start later. A completed job does not run
	// again when a referenced ConfigMap or Secret changes. Default true.
	// +optional
	RollOnChange *bool `json:"rollOnChange,omitempty"`
}

// ConfigFile is a file that is mounted into the container.
type ConfigFile struct {
	// path is the path of the file, for example /etc/app/app.yaml. Other files in
	// the same directory stay visible.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('(^|/)[.][.]?(/|$)')",message="path must be the absolute path of a file, without : and without . or .. segments, for example /etc/app/app.yaml"
	Path string `json:"path"`

	// content is the content of the file.
	// +required
	// +kubebuilder:validation:MaxLength=65536
	Content string `json:"content"`
}

// Volume is a volume that is mounted into the container.
//
// +kubebuilder:validation:XValidation:rule="[has(self.emptyDir), has(self.secret), has(self.persistentVolumeClaim), has(self.configMap)].exists_one(set, set)",message="a volume must set exactly one of emptyDir, secret, configMap and persistentVolumeClaim"
type Volume struct {
	// name is the name of the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.startsWith('holdfast-')",message="a volume name must consist of a-z, 0-9 and -, start and end with a letter or digit, and not start with holdfast-"
	Name string `json:"name"`

	// mountPath is the path at which the volume is mounted, for example /data.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('(^|/)[.][.]?(/|$)')",message="mountPath must be an absolute path without trailing /, without : and without . or .. segments, for example /data"
	MountPath string `json:"mountPath"`

	// readOnly mounts the volume read-only. Default false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// emptyDir is a temporary directory that is deleted with the pod.
	// +optional
	EmptyDir *EmptyDirVolume `json:"emptyDir,omitempty"`

	// secret mounts the keys of a Secret in the same namespace as files.
	// +optional
	Secret *ObjectVolume `json:"secret,omitempty"`

	// configMap mounts the keys of a ConfigMap in the same namespace as files.
	// +optional
	ConfigMap *ObjectVolume `json:"configMap,omitempty"`

	// persistentVolumeClaim mounts an existing PersistentVolumeClaim in the same
	// namespace. Holdfast does not create, expand or delete it.
	// +optional
	PersistentVolumeClaim *ClaimVolume `json:"persistentVolumeClaim,omitempty"`
}

// EmptyDirVolume is a temporary directory that is deleted with the pod.
type EmptyDirVolume struct {
	// sizeLimit is the maximum size of the directory, for example 1Gi. A pod that
	// exceeds it is evicted. Unset: limited by the disk of the node.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`

	// medium is the storage medium: Memory, or unset for the disk of the node.
	// Memory counts toward the memory limit of the container.
	// +optional
	// +kubebuilder:validation:Enum=Memory
	Medium corev1.StorageMedium `json:"medium,omitempty"`
}

// ObjectVolume mounts the keys of an object as files.
type ObjectVolume struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// items are the keys to mount and the paths of their files. Unset: all keys.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	Items []KeyPath `json:"items,omitempty"`

	// defaultMode is the permission bits of the files as a decimal number, for
	// example 292 for 0444. Default 420 (0644).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`
}

// KeyPath is a key of an object and the path of its file.
type KeyPath struct {
	// key is the key in the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`

	// path is the path of the file within the volume, for example tls/key.pem. A
	// path outside of the volume is reported as InvalidSpec.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
}

// ClaimVolume references an existing PersistentVolumeClaim.
type ClaimVolume struct {
	// claimName is the name of the PersistentVolumeClaim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
}

// Spread specifies how the pods of a component are spread over nodes.
// +kubebuilder:validation:Enum=Soft;Hard;None
type Spread string

// Values of Spread.
const (
	SpreadSoft Spread = "Soft"
	SpreadHard Spread = "Hard"
	SpreadNone Spread = "None"
)

// SchedulingSettings specify on which nodes pods can run.
type SchedulingSettings struct {
	// nodeSelector are labels that a node must have, for example
	// {kubernetes.io/arch: arm64}.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="a label name must have at most 63 characters of A-Z, a-z, 0-9, -, _ and ., and start and end with a letter or digit, with an optional prefix of a DNS name and /, for example kubernetes.io/arch"
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations allow the pods to run on nodes with matching taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// spread sets topology spread constraints for the pods of a component. Soft
	// prefers to spread them over nodes and zones. Hard requires an even spread
	// over nodes and leaves a pod Pending if that is impossible. None sets no
	// constraints. Default Soft. Jobs are not spread.
	// +optional
	Spread Spread `json:"spread,omitempty"`

	// priorityClassName is the PriorityClass of the pods. Pods with a lower
	// priority are preempted first. Default: the default PriorityClass of the
	// cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}
