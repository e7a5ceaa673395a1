package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CloudManager is a product as a kind of its own: a web front, an identity
// service and a MariaDB. The database comes first, identity when it is ready,
// and the front when that is.
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
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="the names of Services begin with this name: at most 63 of a-z, 0-9 and -, beginning with a letter and not ending with -"
type CloudManager struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is to run.
	// +required
	Spec CloudManagerSpec `json:"spec"`

	// status is what was seen last.
	// +optional
	Status CloudManagerStatus `json:"status,omitzero"`
}

// ApplicationStatus is the part of the status that every kind has.
func (c *CloudManager) ApplicationStatus() *ApplicationStatus { return &c.Status.ApplicationStatus }

// StackStatus is the part of the status that kinds of several components have.
func (c *CloudManager) StackStatus() *StackStatus { return &c.Status.StackStatus }

// CloudManagerSpec is what is to run.
type CloudManagerSpec struct {
	// deletionPolicy says what becomes of the database's volume and password when
	// the object is deleted: Retain keeps them, Delete deletes them. Default
	// Retain.
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`

	// front is the web front.
	// +required
	Front CloudManagerService `json:"front"`

	// identity is the identity service. It is told where the database is, in
	// DB_HOST and DB_PORT.
	// +required
	Identity CloudManagerService `json:"identity"`

	// db is the database.
	// +required
	DB CloudManagerDatabase `json:"db"`
}

// CloudManagerService is a service of the product.
type CloudManagerService struct {
	// deployment is how it runs.
	// +required
	Deployment CloudManagerDeployment `json:"deployment"`
}

// CloudManagerDeployment is how a service of the product runs.
type CloudManagerDeployment struct {
	// image to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// name of the Deployment and of the Service. Default: the name of the object
	// with -front or -identity appended.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="it becomes the name of a Service: it is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	Name string `json:"name,omitempty"`

	// replicas is how many pods run. Unset means: starts with 1, and afterwards
	// the live count is left alone.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// ports the container listens on. The front listens on 80 unless it says
	// otherwise; without ports there is no Service.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.size() < 2 || self.all(p, has(p.name))",message="with several ports each needs a name, for example {name: http, port: 80}"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(o, has(o.name) && o.name == p.name))",message="two ports have the same name; give each its own, for example http and metrics"
	Ports []Port `json:"ports,omitempty"`

	// command replaces the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	Command []string `json:"command,omitempty"`

	// env are environment variables, with a value or valueFrom a ConfigMap, a
	// Secret or a field of the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// resources are what the container is promised and what it may use at most.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// CloudManagerDatabase is the database of the product.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rootPass) || !has(self.rootPasswordSecretRef)",fieldPath=".rootPass",message="there is one root password: remove rootPass, or rootPasswordSecretRef"
type CloudManagerDatabase struct {
	// statefulSet is how it runs.
	// +required
	StatefulSet CloudManagerStatefulSet `json:"statefulSet"`

	// rootPass is the password of root. It is copied into the Secret of the
	// database, and changing it changes it in the server. Everybody who may read
	// this object can read it here, so rootPasswordSecretRef or neither is better.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="a password has no line breaks and other control characters"
	RootPass string `json:"rootPass,omitempty"`

	// rootPasswordSecretRef is where the password of root is copied from; when it
	// changes there, it is changed in the server. With neither of the two it is
	// generated.
	// +optional
	RootPasswordSecretRef *SecretKeyReference `json:"rootPasswordSecretRef,omitempty"`

	// rotation says when generated passwords are replaced.
	// +optional
	Rotation DatabaseRotation `json:"rotation,omitzero"`
}

// CloudManagerStatefulSet is how the database runs.
type CloudManagerStatefulSet struct {
	// image to run, for example mariadb:10.11.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`

	// name of the StatefulSet and of the Service. Default: the name of the object
	// with -db appended. Changing it moves no data: StatefulSet, volume and Secret
	// keep the name they were made with, and the Service gets the new one.
	// +optional
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="it becomes the name of a Service: it is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	Name string `json:"name,omitempty"`

	// storage is the volume of the database.
	// +required
	Storage CloudManagerStorage `json:"storage"`

	// resources are what the server is promised and what it may use at most. It
	// is promised a tenth of a core and 256Mi of memory where nothing is said.
	// Half of the memory limit is used as its buffer.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// CloudManagerStorage is the volume of the database.
type CloudManagerStorage struct {
	// class is the StorageClass that makes the volume. Unset means the default of
	// the cluster. It cannot change once there is a volume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Class *string `json:"class,omitempty"`

	// accessModes says who may use the volume at once. It cannot change once there
	// is a volume. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessModes corev1.PersistentVolumeAccessMode `json:"accessModes,omitempty"`

	// size of the volume. More makes it grow while the database runs; less is
	// refused.
	// +required
	Size resource.Quantity `json:"size"`
}

// Phase is the state of an object in one word.
// +kubebuilder:validation:Enum=Pending;Progressing;Ready;Degraded;Deleting
type Phase string

// The phases, derived from the conditions.
const (
	PhasePending     Phase = "Pending"
	PhaseProgressing Phase = "Progressing"
	PhaseReady       Phase = "Ready"
	PhaseDegraded    Phase = "Degraded"
	PhaseDeleting    Phase = "Deleting"
)

// CloudManagerStatus is what was seen last.
type CloudManagerStatus struct {
	// phase is the state in one word, derived from the conditions.
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
