package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CloudManager runs a product that consists of a web front, an identity
// service and a MariaDB database. The database starts first, then identity,
// then front.
//
// +genclient
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=cloudm,categories=holdfast
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Components",type=string,JSONPath=`.status.componentsReady`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="Revision",type=string,priority=1,JSONPath=`.status.currentRevision`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the name is the prefix of Service names: it must have at most 63 characters of a-z, 0-9 and -, start with a letter and not end with -"
type CloudManager struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the product.
	// +required
	Spec CloudManagerSpec `json:"spec"`

	// status is the most recently observed state. Only the operator writes it.
	// +optional
	Status CloudManagerStatus `json:"status,omitzero"`
}

// ApplicationStatus returns the part of the status that all kinds have in
// common.
func (c *CloudManager) ApplicationStatus() *ApplicationStatus { return &c.Status.ApplicationStatus }

// StackStatus returns the part of the status that kinds with several
// components have in common.
func (c *CloudManager) StackStatus() *StackStatus { return &c.Status.StackStatus }

// CloudManagerSpec is the desired state of a CloudManager.
type CloudManagerSpec struct {
	// deletionPolicy specifies what happens to the volume and the credentials of
	// the database when the CloudManager is deleted: Retain keeps them, Delete
	// deletes them. Default Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	Operations `json:",inline"`

	// front is the web front.
	// +required
	Front CloudManagerService `json:"front"`

	// identity is the identity service. Its environment variables DB_HOST and
	// DB_PORT contain the address of the database.
	// +required
	Identity CloudManagerService `json:"identity"`

	// db is the database.
	// +required
	DB CloudManagerDatabase `json:"db"`
}

// CloudManagerService is the front or the identity service.
type CloudManagerService struct {
	// deployment configures the Deployment and the Service.
	// +required
	Deployment CloudManagerDeployment `json:"deployment"`
}

// CloudManagerDeployment configures the Deployment and the Service of the
// front or the identity service.
type CloudManagerDeployment struct {
	// image is the container image, for example nginx:1.27.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// name is the name of the Deployment and of the Service. Default: the name of
	// the CloudManager with -front or -identity appended.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="name is used as the name of a Service: it must consist of a-z, 0-9 and -, start with a letter and not end with -"
	Name string `json:"name,omitempty"`

	// replicas is the number of pods. Unset: the Deployment starts with 1 pod, and
	// the operator does not change the number afterwards.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// ports are the ports that the container listens on. Default 80 for front,
	// none for identity. Without ports no Service is created.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self.all(p, has(p.name))",message="each port must have a name if there is more than one, for example {name: http, port: 80}"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(o, has(o.name) && o.name == p.name))",message="two ports have the same name; use different names, for example http and metrics"
	Ports []Port `json:"ports,omitempty"`

	// command overrides the entrypoint of the image, for example [/bin/server].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	Command []string `json:"command,omitempty"`

	// env are environment variables of the container. Each has a value, or
	// valueFrom a key of a ConfigMap or Secret or a field of the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// resources are the requests and limits of the container.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// CloudManagerDatabase configures the database of the product.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rootPass) || !has(self.rootPasswordSecretRef)",fieldPath=".rootPass",message="rootPass and rootPasswordSecretRef are mutually exclusive; remove one of them"
type CloudManagerDatabase struct {
	// statefulSet configures the StatefulSet and the Service of the database.
	// +required
	StatefulSet CloudManagerStatefulSet `json:"statefulSet"`

	// rootPass is the password of the root account, in plain text. The operator
	// copies it to the Secret of the database; changing it changes the password in
	// the server. Anyone who can read this object can read the password: use
	// rootPasswordSecretRef instead, or leave both unset to generate a password.
	// It is rejected unless the annotation apps.holdfast.dev/trial is "true".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="rootPass must not contain line breaks or other control characters"
	RootPass string `json:"rootPass,omitempty"`

	// rootPasswordSecretRef is the Secret key that contains the password of the
	// root account. Changing its value changes the password in the server. If
	// rootPass is unset as well, a password is generated.
	// +optional
	RootPasswordSecretRef *SecretKeyReference `json:"rootPasswordSecretRef,omitempty"`

	// rotation specifies when generated passwords are rotated.
	// +optional
	Rotation DatabaseRotation `json:"rotation,omitzero"`

	// requireTLS rejects unencrypted connections to the server. Clients find the
	// certificate authority in key ca.crt of the binding Secret. Changing it
	// restarts the server. Default false: the server accepts both.
	// +optional
	RequireTLS bool `json:"requireTLS,omitempty"`
}

// CloudManagerStatefulSet configures the StatefulSet and the Service of the
// database.
type CloudManagerStatefulSet struct {
	// image is the container image, for example mariadb:10.11.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// name is the name of the StatefulSet and of the Service. Default: the name of
	// the CloudManager with -db appended. Changing it renames only the Service:
	// StatefulSet, volume and Secret keep their names.
	// +optional
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="name is used as the name of a Service: it must consist of a-z, 0-9 and -, start with a letter and not end with -"
	Name string `json:"name,omitempty"`

	// storage configures the volume of the database.
	// +required
	Storage CloudManagerStorage `json:"storage"`

	// resources are the requests and limits of the server. Default requests are
	// 100m CPU and 256Mi memory; a resource with only a limit requests its limit.
	// The InnoDB buffer pool is half of the memory limit.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// CloudManagerStorage configures the volume of the database.
type CloudManagerStorage struct {
	// class is the StorageClass of the volume. It is immutable once the volume
	// exists. Default: the default StorageClass of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class *string `json:"class,omitempty"`

	// accessModes is the access mode of the volume. It is immutable once the
	// volume exists. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessModes corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// size is the capacity of the volume, for example 20Gi. Increasing it expands
	// the volume while the database runs. Decreasing it is rejected.
	// +required
	Size resource.Quantity `json:"size"`
}

// Phase summarizes the conditions in one word.
// +kubebuilder:validation:Enum=Pending;Progressing;Ready;Degraded;Deleting
type Phase string

// Phases of a CloudManager, derived from its conditions.
const (
	PhasePending     Phase = "Pending"
	PhaseProgressing Phase = "Progressing"
	PhaseReady       Phase = "Ready"
	PhaseDegraded    Phase = "Degraded"
	PhaseDeleting    Phase = "Deleting"
)

// CloudManagerStatus is the observed state of a CloudManager.
type CloudManagerStatus struct {
	// phase summarizes the conditions in one word, for example Ready.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	ApplicationStatus `json:",inline"`
	StackStatus       `json:",inline"`
}

// CloudManagerList is a list of CloudManagers.
//
// +kubebuilder:object:root=true
type CloudManagerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CloudManager `json:"items"`
}
