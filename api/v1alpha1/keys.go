package v1alpha1

import "strings"

// Keys are the labels, annotations, finalizer and field managers of one operator. Operators with
// different keys can run in the same cluster; the kinds of Holdfast use DefaultKeys. A key must
// never change: objects with the previous key would no longer be recognized.
// +kubebuilder:object:generate=false
type Keys struct {
	// Prefix is the prefix of all labels and annotations, without the slash.
	Prefix string

	// Finalizer keeps an application until its components are deleted in reverse dependency order and
	// its data is retained or deleted. Only applications with dependencies or data have it.
	Finalizer string

	// FieldManager owns the fields of children, FieldManagerStatus the status of applications.
	FieldManager, FieldManagerStatus string

	// Workload is the label with the stable ID of a workload, "<kind>-<name of the child at its
	// creation>", on the child and its pods. LabelManagedBy and Workload are the whole selector.
	Workload string
	// OwnerUID and OwnerKind are labels that identify the owner of a child, even if its ownerReference
	// was removed. OwnerKind includes the API group for kinds of other groups.
	OwnerUID, OwnerKind string
	// Retained is a label with the value "true" on claims and credentials that are retained although
	// no component uses them.
	Retained string

	// AppliedHash is the hash of the apply configuration that was last applied to the child. If the
	// hash and the fields are equal, no write is needed.
	AppliedHash string
	// ConfigHash, on a pod template, is the hash of the configuration that the pods consume. A change
	// of it replaces the pods.
	ConfigHash string
	// RestartedAt, on a pod template, is the last restart that was requested in the operations of the
	// application.
	RestartedAt string
	// DependsOn, on a workload, are the components that its current pods depend on. Pruning and
	// deletion use it instead of the spec, which can already have other dependencies.
	DependsOn string
	// PreviousDependsOn, on a workload, are components that terminating pods can still depend on.
	PreviousDependsOn string
	// ConfigRefs, on a workload, contains the UID, resourceVersion and hash of each ConfigMap and
	// Secret that is part of the hash of its pod template.
	ConfigRefs string
	// JobSpec, on a Job, is the hash of the spec of the job component. On a revision, it contains the
	// hashes of all its jobs, which are retained as long as the revision.
	JobSpec string
	// RevisionHealthy, on a revision, is "true" once all components were ready with it.
	RevisionHealthy string
	// Adopt, set to "true" on an object by its owner, allows the operator to adopt it.
	Adopt string
	// TakeOwnership, set to "true" on a child, allows the operator to remove fields of other field
	// managers that conflict with declared fields. Adopt includes this permission.
	TakeOwnership string
	// Prune, set to PruneDisabled on a child, prevents its deletion when it is no longer declared.
	Prune string
	// Container, on an adopted workload, is the name of the main container if it is not the default
	// name.
	Container string
	// ConfirmDelete, set to "true" on a claim or on credentials, confirms their deletion. The
	// admission policy rejects a deletion without it.
	ConfirmDelete string
	// RotationRequested and RotatedAt, on the credentials of a database, are the last processed
	// rotation request and the time of the last rotation.
	RotationRequested, RotatedAt string
	// CredentialKeys, on credentials, are the keys that the operator has verified.
	CredentialKeys string
	// ResetCredentials, on the credentials of a database, restarts the server once with the stored
	// root password, for recovery when the password in the server is lost. It takes effect when its
	// value changes; by convention a timestamp.
	ResetCredentials string
	// ServerVersion and ServerImage, on a claim, are the version and the image of the server that
	// wrote the data on the volume.
	ServerVersion, ServerImage string
	// Schema, on a claim, is the name of the schema and of its account. It does not change when the
	// component is renamed.
	Schema string
	// Released, set to "true" on a retained claim, declares that the data belongs to no component, so
	// that new components can start without it.
	Released string
	// Trial, set to "true" on a CloudManager, allows a password in its spec. The admission policy
	// rejects it otherwise.
	Trial string
}

// DefaultKeys are the keys of the built-in kinds.
var DefaultKeys = NewKeys("apps.holdfast.dev", "holdfast")

// NewKeys returns the keys for a label prefix and a field manager.
func NewKeys(prefix, fieldManager string) *Keys {
	p := prefix + "/" // see also IsWorkloadLabel
	return &Keys{
		Prefix:       prefix,
		Finalizer:    p + "ordered-deletion",
		FieldManager: fieldManager, FieldManagerStatus: fieldManager + "-status",

		Workload: p + "workload",
		OwnerUID: p + "owner-uid", OwnerKind: p + "owner-kind",
		Retained: p + "retained",

		AppliedHash: p + "applied-hash",
		ConfigHash:  p + "config-hash", ConfigRefs: p + "config-refs",
		RestartedAt: p + "restarted-at",
		DependsOn:   p + "depends-on", PreviousDependsOn: p + "previous-depends-on",
		JobSpec:         p + "job-spec",
		RevisionHealthy: p + "revision-healthy",
		Adopt:           p + "adopt", TakeOwnership: p + "take-ownership", Prune: p + "prune",
		Container:         p + "container",
		ConfirmDelete:     p + "confirm-delete",
		RotationRequested: p + "rotation-requested", RotatedAt: p + "rotated-at",
		CredentialKeys: p + "credential-keys", ResetCredentials: p + "reset-credentials",
		ServerVersion: p + "server-version", ServerImage: p + "server-image",
		Schema: p + "schema", Released: p + "released", Trial: p + "trial",
	}
}

// Own reports whether a label or annotation name has the prefix.
func (k *Keys) Own(name string) bool {
	return len(name) > len(k.Prefix) && name[len(k.Prefix)] == '/' && name[:len(k.Prefix)] == k.Prefix
}

// IsWorkloadLabel reports whether a label name is Workload in the keys of any operator.
func IsWorkloadLabel(name string) bool { return strings.HasSuffix(name, "/workload") }
