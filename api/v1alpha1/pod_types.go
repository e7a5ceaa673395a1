package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodSettings are what pods have beside their container, the same for every type of
// component.
type PodSettings struct {
	// config are files that the pods find, and how changed configuration reaches
	// them.
	// +optional
	Config ConfigSettings `json:"config,omitzero"`

	// volumes that the container finds at a path.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(o, o.mountPath == v.mountPath))",message="two volumes have the same mountPath; give each its own"
	Volumes []Volume `json:"volumes,omitempty"`

	// scheduling says on which nodes the pods run.
	// +optional
	Scheduling SchedulingSettings `json:"scheduling,omitzero"`

	// serviceAccountName is who the pods are for the Kubernetes API: a
	// ServiceAccount of this namespace. Unset means nobody: the pods get no token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="serviceAccountName is the name of a ServiceAccount: a-z, 0-9, - and ., beginning and ending with a letter or digit"
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// podLabels are further labels of the pods, for example for a policy that
	// selects by them. Changing them replaces the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/') && !k.startsWith('app.kubernetes.io/') && k != 'pod-template-hash')",message="labels that begin with apps.holdfast.dev/ or app.kubernetes.io/, and pod-template-hash, are set by Holdfast and Kubernetes; choose other names"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="the name of a label has at most 63 of A-Z, a-z, 0-9, -, _ and ., begins and ends with a letter or digit, and may have a DNS name and / before it, for example team or example.com/team"
	PodLabels map[string]LabelValue `json:"podLabels,omitempty"`

	// podAnnotations are further annotations of the pods, for example for a
	// service mesh. Changing them replaces the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/'))",message="annotations that begin with apps.holdfast.dev/ are set by Holdfast alone; remove them here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="the name of an annotation has at most 63 of A-Z, a-z, 0-9, -, _ and ., begins and ends with a letter or digit, and may have a DNS name and / before it, for example example.com/scrape"
	PodAnnotations map[string]AnnotationValue `json:"podAnnotations,omitempty"`

	// podTemplateOverlay is merged into the template of the pods, as a strategic
	// merge patch, for what has no field here: sidecars, init containers,
	// affinity. The container of the component is called app. It may not set a
	// securityContext, a serviceAccountName, a volume of type hostPath, or any
	// field that begins with host: security and serviceAccountName say these, for
	// all containers of the pod. What cannot be merged is reported as InvalidSpec.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	PodTemplateOverlay *runtime.RawExtension `json:"podTemplateOverlay,omitempty"`

	// security says what the pods may do and as whom they run.
	// +optional
	Security SecuritySettings `json:"security,omitzero"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="the value of a label is made of A-Z, a-z, 0-9, -, _ and ., and begins and ends with a letter or digit"
type LabelValue string

// ConfigSettings are files that the pods find, and how changed configuration
// reaches them.
type ConfigSettings struct {
	// files that the container finds, with their content. Together they become a
	// ConfigMap; what is secret belongs into a Secret, see volumes.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=16
	Files []ConfigFile `json:"files,omitempty"`

	// rollOnChange replaces the pods when a file, or the content of a ConfigMap or
	// Secret that env, envFrom or volumes refer to, changes. With false new
	// content waits for the next pod that starts anyway. A job that has run does
	// not run again for the content of others. Default true.
	// +optional
	RollOnChange *bool `json:"rollOnChange,omitempty"`
}

// ConfigFile is a file that the container finds.
type ConfigFile struct {
	// path of the file, for example /etc/app/app.yaml. What else is in the folder
	// stays there.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('(^|/)[.][.]?(/|$)')",message="a path begins with / and names a file, without : and without . or .. as a part, for example /etc/app/app.yaml"
	Path string `json:"path"`

	// content of the file.
	// +required
	// +kubebuilder:validation:MaxLength=65536
	Content string `json:"content"`
}

// Volume is something that the container finds at a path.
//
// +kubebuilder:validation:XValidation:rule="[has(self.emptyDir), has(self.secret), has(self.persistentVolumeClaim), has(self.configMap)].exists_one(set, set)",message="a volume has exactly one of emptyDir, secret, configMap and persistentVolumeClaim"
type Volume struct {
	// name of the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.startsWith('holdfast-')",message="a volume's name is made of a-z, 0-9 and -, begins and ends with a letter or digit, and does not begin with holdfast-"
	Name string `json:"name"`

	// mountPath is where the container finds it, for example /data.
	// +required
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('(^|/)[.][.]?(/|$)')",message="a mountPath begins with /, does not end with it, and has neither : nor . or .. as a part, for example /data"
	MountPath string `json:"mountPath"`

	// readOnly keeps the container from writing to it. Default false.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// emptyDir is empty when a pod starts and gone when it ends.
	// +optional
	EmptyDir *EmptyDirVolume `json:"emptyDir,omitempty"`

	// secret shows the content of a Secret of this namespace as files.
	// +optional
	Secret *ObjectVolume `json:"secret,omitempty"`

	// configMap shows the content of a ConfigMap of this namespace as files.
	// +optional
	ConfigMap *ObjectVolume `json:"configMap,omitempty"`

	// persistentVolumeClaim is storage of this namespace that somebody else made
	// and looks after.
	// +optional
	PersistentVolumeClaim *ClaimVolume `json:"persistentVolumeClaim,omitempty"`
}

// EmptyDirVolume is a folder for as long as the pod is there.
type EmptyDirVolume struct {
	// sizeLimit is how much may be in it, for example 1Gi. A pod that writes more
	// is evicted. Unset means as much as the node has.
	// +optional
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`

	// medium is where it is kept: Memory, or unset for the disk of the node. What
	// is in memory counts against the memory limit of the container.
	// +optional
	// +kubebuilder:validation:Enum=Memory
	Medium corev1.StorageMedium `json:"medium,omitempty"`
}

// ObjectVolume shows the content of an object as files.
type ObjectVolume struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// items are the keys to show, and under which names. Unset means all.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	Items []KeyPath `json:"items,omitempty"`

	// defaultMode are the permission bits of the files, as a decimal number: 292
	// is 0444. Default 420, which is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`
}

// KeyPath is a key of an object and the file that shows it.
type KeyPath struct {
	// key of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`

	// path of the file within the volume, for example tls/key.pem. One that leads
	// out of it is reported as InvalidSpec.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Path string `json:"path"`
}

// ClaimVolume is storage that somebody else made.
type ClaimVolume struct {
	// claimName is the name of the PersistentVolumeClaim.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClaimName string `json:"claimName"`
}

// Spread says how strictly pods are kept apart.
// +kubebuilder:validation:Enum=Soft;Hard;None
type Spread string

// How strictly pods are kept apart.
const (
	SpreadSoft Spread = "Soft"
	SpreadHard Spread = "Hard"
	SpreadNone Spread = "None"
)

// SchedulingSettings say on which nodes pods run.
type SchedulingSettings struct {
	// nodeSelector are labels that a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="the name of a label has at most 63 of A-Z, a-z, 0-9, -, _ and ., begins and ends with a letter or digit, and may have a DNS name and / before it, for example kubernetes.io/arch"
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations are the taints of nodes that do not matter.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// spread distributes the pods of one component over nodes: Soft where there is
	// a choice, and over zones too; Hard evenly over the nodes that can take them,
	// if need be by not running one; None not at all. Default Soft. Jobs are not
	// spread.
	// +optional
	Spread Spread `json:"spread,omitempty"`

	// priorityClassName says whose pods go first when room is short.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`
}
