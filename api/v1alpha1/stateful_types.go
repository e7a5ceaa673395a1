package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DeletionPolicy says what becomes of data that is no longer wanted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// What becomes of data that is no longer wanted.
const (
	DeletionRetain DeletionPolicy = "Retain"
	DeletionDelete DeletionPolicy = "Delete"
)

// StatefulComponent is a service with volumes of its own, which are never lost.
//
// +kubebuilder:validation:XValidation:rule="!has(self.update) || !has(self.update.maxSurge) && !has(self.update.maxUnavailable)",fieldPath=".update",message="pods with volumes are replaced one after the other, each under its own name; remove maxSurge and maxUnavailable"
type StatefulComponent struct {
	ServerSpec `json:",inline"`

	// storage are the volumes of each pod. None can be added or removed later.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(v, self.exists_one(o, o.mountPath == v.mountPath))",message="two volumes have the same mountPath; give each its own"
	Storage []StorageSpec `json:"storage"`

	// credentials are passwords that are generated once and kept for as long as
	// the volumes are, in a Secret that is called like the StatefulSet with -auth
	// appended.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=8
	Credentials []Credential `json:"credentials,omitempty"`
}

// StorageSpec is a volume that each pod has for itself.
type StorageSpec struct {
	// name of the volume. The claim of the first pod is called
	// <name>-<resourceName>-0.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="the name of a volume is made of a-z, 0-9 and -, and begins and ends with a letter or digit"
	Name string `json:"name"`

	// mountPath is where the container finds the volume.
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.contains(':')",message="mountPath begins with / and has no : in it, for example /var/lib/data"
	MountPath string `json:"mountPath"`

	// className is the StorageClass that makes the volume. Unset means the default
	// of the cluster. It cannot change once there is a volume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// accessMode says who may use the volume at once: the pods of one node
	// (ReadWriteOnce), one pod (ReadWriteOncePod) or anybody (ReadWriteMany). It
	// cannot change once there is a volume. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`

	// size of the volume. More makes it grow while the pods run; less is refused.
	// +required
	Size resource.Quantity `json:"size"`
}

// Credential is a password that is made once.
type Credential struct {
	// key under which the Secret has it, for example password.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="a key of a Secret is made of letters, digits, -, _ and ."
	Key string `json:"key"`

	// env is the environment variable in which the container gets it. Default:
	// none.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="the name of an environment variable has letters, digits and _, and does not begin with a digit"
	Env string `json:"env,omitempty"`

	// secretRef is where the password is copied from, instead of being generated.
	// Changing that Secret later does not change the copy.
	// +optional
	SecretRef *SecretKeyReference `json:"secretRef,omitempty"`

	// Value is the password, for kinds that have it in their spec.
	Value string `json:"-"`

	// File is the name under which the container finds it in CredentialsPath; ""
	// means that it does not.
	File string `json:"-"`

	// Hashed says that the file has the hash that MariaDB stores of it.
	Hashed bool `json:"-"`
}

// CredentialsPath is the folder in which containers find the files of credentials.
const CredentialsPath = "/etc/holdfast/auth"

// SecretKeyReference names a key of a Secret of this namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// Retained is data that is kept although no component wants it.
type Retained struct {
	// kind is PersistentVolumeClaim or Secret.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// component that it belonged to.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`

	// removeCommand is the command that deletes it for good.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	RemoveCommand string `json:"removeCommand"`
}
