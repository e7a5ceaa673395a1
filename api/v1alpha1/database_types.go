package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DatabaseEngine is a program that a database is run with.
// +kubebuilder:validation:Enum=MariaDB
type DatabaseEngine string

// EngineMariaDB is the one there is.
const EngineMariaDB DatabaseEngine = "MariaDB"

// DatabaseComponent is a database: one server with a volume, a schema and an
// account that has everything in it. Components that are bound to it get the
// account's password, and are rolled when it changes.
//
// +kubebuilder:validation:XValidation:rule="has(self.database) == has(oldSelf.database) && (!has(self.database) || self.database == oldSelf.database)",fieldPath=".database",message="the schema is part of the data, so its name cannot change; keep it"
// +kubebuilder:validation:XValidation:rule="has(self.version) || has(self.image)",message="say which server it is: version, for example \"11.8\", or image"
type DatabaseComponent struct {
	// engine is the program that it is run with. Default MariaDB.
	// +optional
	Engine DatabaseEngine `json:"engine,omitempty"`

	// version of the server, for example "11.8". Without an image it is also the
	// tag of the official one; with an image it is what that must turn out to be.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+[.][0-9]+([.][0-9]+)?$')",message="a version is two or three numbers, for example \"11.8\"; with quotes, so that 10.10 does not become 10.1"
	Version string `json:"version,omitempty"`

	// image to run, which takes the variables of the official one. Default
	// mariadb:<version>.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// storage is the volume of the database.
	// +required
	Storage DatabaseStorage `json:"storage"`

	// database is the name of the schema and of the account. It cannot change.
	// Default: the name of the component, with _ instead of -; a component that is
	// renamed keeps the one that it had.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_]*$')",message="the name of a schema is made of letters, digits and _, and begins with a letter"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['root', 'mysql', 'sys', 'information_schema', 'performance_schema', 'healthcheck', 'mariadb'])",message="the server has a schema or an account of that name; choose another one"
	Database string `json:"database,omitempty"`

	// rootPasswordSecretRef is where the password of root is taken from. Without
	// it one is generated. When it changes, the password is changed.
	// +optional
	RootPasswordSecretRef *SecretKeyReference `json:"rootPasswordSecretRef,omitempty"`

	// RootPassword is the password of root, for kinds that have it in their spec.
	RootPassword string `json:"-"`

	// passwordSecretRef is where the password of the account is taken from.
	// Without it one is generated. When it changes, the password is changed while
	// everybody stays connected.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`

	// config is read by the server beside its own configuration, for example
	// "[server]\nmax_connections = 300". Changing it restarts the server.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Config string `json:"config,omitempty"`

	// rotation says when generated passwords are replaced.
	// +optional
	Rotation DatabaseRotation `json:"rotation,omitzero"`

	// update says when the server is restarted.
	// +optional
	Update DatabaseUpdate `json:"update,omitzero"`

	// resources are what the server is promised and what it may use at most. It
	// is promised a tenth of a core and 256Mi of memory where nothing is said.
	// Half of the memory limit is used as its buffer, unless config says
	// otherwise.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// scheduling says on which nodes the pod runs.
	// +optional
	Scheduling SchedulingSettings `json:"scheduling,omitzero"`
}

// DatabaseStorage is the volume of a database.
type DatabaseStorage struct {
	// className is the StorageClass that makes the volume. Unset means the default
	// of the cluster. It cannot change once there is a volume.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// accessMode says who may use the volume at once. It cannot change once there
	// is a volume. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`

	// size of the volume. More makes it grow while the server runs; less is
	// refused.
	// +required
	Size resource.Quantity `json:"size"`
}

// DatabaseUpdate says when a server is restarted although nothing else changes.
type DatabaseUpdate struct {
	// restartedAt restarts it whenever it changes; kubectl holdfast restart writes
	// the time here.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RestartedAt string `json:"restartedAt,omitempty"`
}

// DatabaseRotation says when generated passwords are replaced.
type DatabaseRotation struct {
	// requestedAt asks for new passwords now: any text that it did not have
	// before, by custom the time.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RequestedAt string `json:"requestedAt,omitempty"`

	// everyDays replaces them that many days after the last time. Unset means
	// never.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	EveryDays *int32 `json:"everyDays,omitempty"`
}
