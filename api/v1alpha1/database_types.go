package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DatabaseEngine is a database server product.
// +kubebuilder:validation:Enum=MariaDB
type DatabaseEngine string

// EngineMariaDB is the only supported engine.
const EngineMariaDB DatabaseEngine = "MariaDB"

// DatabaseComponent is a database: a server with one volume, one schema and
// one account with all privileges on the schema. Components with a binding to
// it get the password of the account; their pods are replaced when the
// password changes.
//
// +kubebuilder:validation:XValidation:rule="has(self.database) == has(oldSelf.database) && (!has(self.database) || self.database == oldSelf.database)",fieldPath=".database",message="database is immutable, because the schema is part of the data; restore the previous value"
// +kubebuilder:validation:XValidation:rule="has(self.version) || has(self.image)",message="a database must set version, for example \"11.8\", or image"
type DatabaseComponent struct {
	// engine is the database server. Default MariaDB.
	// +optional
	Engine DatabaseEngine `json:"engine,omitempty"`

	// version is the version of the server, for example "11.8". Without image, it
	// is the tag of the official image. With image, the server in the image must
	// report this version.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+[.][0-9]+([.][0-9]+)?$')",message="version must have two or three numbers, for example \"11.8\"; use quotes, so that 10.10 does not become 10.1"
	Version string `json:"version,omitempty"`

	// image is the container image. It must support the environment variables of
	// the official image. Default: mariadb:<version>.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// storage configures the volume of the database.
	// +required
	Storage DatabaseStorage `json:"storage"`

	// database is the name of the schema and of the account. It is immutable.
	// Default: the name of the component with _ instead of -. A renamed component
	// keeps the name of its schema.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_]*$')",message="database must consist of letters, digits and _, and start with a letter"
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['root', 'mysql', 'sys', 'information_schema', 'performance_schema', 'healthcheck', 'mariadb'])",message="the server already has a schema or an account with this name; use another name"
	Database string `json:"database,omitempty"`

	// rootPasswordSecretRef is the Secret key that contains the password of the
	// root account. Changing its value changes the password in the server. Unset:
	// a password is generated.
	// +optional
	RootPasswordSecretRef *SecretKeyReference `json:"rootPasswordSecretRef,omitempty"`

	// passwordSecretRef is the Secret key that contains the password of the
	// account. Changing its value rotates the password while bound components stay
	// connected. Unset: a password is generated.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`

	// requireTLS rejects unencrypted connections to the server. Clients find the
	// certificate authority in key ca.crt of the binding Secret. Changing it
	// restarts the server. Default false: the server accepts both.
	// +optional
	RequireTLS bool `json:"requireTLS,omitempty"`

	// config is a configuration file that the server reads in addition to its own,
	// for example "[server]\nmax_connections = 300". Changing it restarts the
	// server.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Config string `json:"config,omitempty"`

	// rotation specifies when generated passwords are rotated.
	// +optional
	Rotation DatabaseRotation `json:"rotation,omitzero"`

	// resources are the requests and limits of the server. Default requests are
	// 100m CPU and 256Mi memory; a resource with only a limit requests its limit.
	// The InnoDB buffer pool is half of the memory limit unless config sets
	// innodb_buffer_pool_size.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// scheduling specifies on which nodes the pod can run.
	// +optional
	Scheduling SchedulingSettings `json:"scheduling,omitzero"`
}

// DatabaseStorage configures the volume of a database.
type DatabaseStorage struct {
	// className is the StorageClass of the volume. It is immutable once the volume
	// exists. Default: the default StorageClass of the cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName *string `json:"className,omitempty"`

	// accessMode is the access mode of the volume. It is immutable once the volume
	// exists. Default ReadWriteOnce.
	// +optional
	// +kubebuilder:validation:Enum=ReadWriteOnce;ReadWriteOncePod;ReadWriteMany
	AccessMode corev1.PersistentVolumeAccessMode `json:"accessMode,omitempty"`

	// size is the capacity of the volume, for example 20Gi. Increasing it expands
	// the volume while the server runs. Decreasing it is rejected.
	// +required
	Size resource.Quantity `json:"size"`
}

// DatabaseRotation specifies when generated passwords are rotated.
type DatabaseRotation struct {
	// everyDays rotates the passwords this many days after the last rotation, for
	// example 90. Unset: no periodic rotation.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	EveryDays *int32 `json:"everyDays,omitempty"`
}
