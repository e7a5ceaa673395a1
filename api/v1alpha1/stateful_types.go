package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeletionPolicy specifies what happens to volumes and credentials that are no
// longer used.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// Deletion policies.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// StatefulComponent is a service with persistent volumes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.update) || !has(self.update.maxSurge) && !has(self.update.maxUnavailable)",fieldPath=".update",message="maxSurge and maxUnavailable do not apply to stateful components, whose pods are replaced one at a time; remove them"
type StatefulComponent struct {
	ServerSpec `json:",inline"`

	// storage are the volumes of each pod. Volumes cannot be added or removed
	// later.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(o, o.mountPath == v.mountPath))",message="two volumes have the same mountPath; use another path for one of them"
	Storage []StorageSpec `json:"storage"`

	// credentials are passwords that are generated once and retained as long as
	// the volumes. The Secret that contains them has the name of the StatefulSet
	// with -auth appended.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=8
	Credentials []Credential `json:"credentials,omitempty"`
}

// StorageSpec is a volume of each pod.
type StorageSpec struct {
	// name is the name of the volume. The PersistentVolumeClaim of the first pod
	// is named <name>-<resourceName>-0.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="a volume name must consist of a-z, 0-9 and -, and start and end with a letter or digit"
	Name string `json:"name"`

	// mountPath is the path at which the volume is mounted, for example
	// /var/lib/data.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains(':')",message="mountPath must be an absolute path without :, for example /var/lib/data"
	MountPath string `json:"mountPath"`

	// className is the StorageClass of the volume. It is immutable once the volume
	// exists. Default: the default StorageClass of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// accessMode is the access mode of the volume: ReadWriteOnce for the pods of
	// one node, ReadWriteOncePod for one pod, ReadWriteMany for the pods of many
	// nodes. It is immutable once the volume exists. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`

	// size is the capacity of the volume, for example 20Gi. Increasing it expands
	// the volume while the pods run. Decreasing it is rejected.
	// +required
	Size resource.Quantity `json:"size"`
}

// Credential is a password that is generated or copied once.
type Credential struct {
	// key is the key of the password in the Secret, for example password.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="a Secret key must consist of letters, digits, -, _ and ."
	Key string `json:"key"`

	// env is the environment variable of the container that contains the password,
	// for example DB_PASSWORD. Default: none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="an environment variable name must consist of letters, digits and _, and not start with a digit"
	Env string `json:"env,omitempty"`

	// secretRef is the Secret key from which the password is copied. Later changes
	// of that Secret are not copied. Unset: the password is generated.
	// +optional
	SecretRef *SecretKeyReference `json:"secretRef,omitempty"`
}

// CredentialsPath is the directory in which files with credentials are
// mounted.
const CredentialsPath = "/etc/holdfast/auth"

// SecretKeyReference references a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name is the name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key is the key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Retained is a volume or Secret that is retained although no component uses
// it.
type Retained struct {
	// kind is PersistentVolumeClaim or Secret.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// component is the name of the component that used the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`

	// removeCommand is the command that deletes the object permanently.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	RemoveCommand string `json:"removeCommand"`
}
