package v1alpha1

// Labels that everybody knows, on all children. The name is the type of the component,
// instance and part-of are the object, component is the component.
const (
	LabelName      = "app.kubernetes.io/name"
	LabelInstance  = "app.kubernetes.io/instance" // on pods too
	LabelComponent = "app.kubernetes.io/component"
	LabelPartOf    = "app.kubernetes.io/part-of"
	LabelVersion   = "app.kubernetes.io/version"

	// LabelManagedBy has the value ManagedBy on children and pods. The caches of the
	// operator select on it, and it is part of every selector.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "holdfast"
)

// Labels of ours.
const (
	// LabelWorkload is the stable id of a workload, "<kind>-<name of the child when it was
	// created>", on the child and its pods. With LabelManagedBy it is the whole selector.
	LabelWorkload = "apps.holdfast.dev/workload"

	// LabelOwnerUID and LabelOwnerKind (with the group, of kinds of other groups) say whose a child is, also when its
	// ownerReference was stripped.
	LabelOwnerUID  = "apps.holdfast.dev/owner-uid"
	LabelOwnerKind = "apps.holdfast.dev/owner-kind"

	// LabelRetained is "true" on claims and credentials that no component wants and that
	// are kept on purpose.
	LabelRetained = "apps.holdfast.dev/retained"
)

// Annotations.
const (
	// AnnotationAppliedHash is the hash of the apply configuration that made the child what it
	// is. An equal hash and equal fields mean that there is nothing to write.
	AnnotationAppliedHash = "apps.holdfast.dev/applied-hash"

	// AnnotationConfigHash, on a pod template, is the hash of the configuration the pods
	// consume: when it changes, they are replaced.
	AnnotationConfigHash = "apps.holdfast.dev/config-hash"

	// AnnotationRestartedAt, on a pod template, repeats spec.update.restartedAt.
	AnnotationRestartedAt = "apps.holdfast.dev/restarted-at"

	// AnnotationDependsOn, on a workload, names the components that its pods were made to
	// depend on. Pruning and deletion keep their order by it, not by the spec.
	AnnotationDependsOn = "apps.holdfast.dev/depends-on"

	// AnnotationPreviousDependsOn, on a workload, names components that pods on their way out may
	// still need.
	AnnotationPreviousDependsOn = "apps.holdfast.dev/previous-depends-on"

	// AnnotationConfigRefs, on a workload, is uid, resourceVersion and hash of each ConfigMap and
	// Secret whose content went into the hash of its pod template.
	AnnotationConfigRefs = "apps.holdfast.dev/config-refs"

	// AnnotationJobSpec, on a Job, is the hash of the job's own spec; on a revision those
	// of all its jobs, which are kept for as long as the revision is.
	AnnotationJobSpec = "apps.holdfast.dev/job-spec"

	// AnnotationRevisionHealthy, on a revision, is "true" once everything was ready with it.
	AnnotationRevisionHealthy = "apps.holdfast.dev/revision-healthy"

	// AnnotationAdopt, set to "true" on an object by its owner, lets Holdfast take it over.
	AnnotationAdopt = "apps.holdfast.dev/adopt"

	// AnnotationPrune, set to PruneDisabled on a child, keeps it from being deleted when it
	// is no longer wanted.
	AnnotationPrune = "apps.holdfast.dev/prune"
	PruneDisabled   = "disabled"

	// AnnotationContainer, on an adopted workload, names the container that is ours when
	// it has another name than we would have given it.
	AnnotationContainer = "apps.holdfast.dev/container"

	// AnnotationConfirmDelete, set to "true" on a claim or on credentials, is the word that
	// they may be deleted: without it the admission policy refuses that.
	AnnotationConfirmDelete = "apps.holdfast.dev/confirm-delete"

	// AnnotationRotationRequested and AnnotationRotatedAt, on the credentials of a database,
	// are the last request for new passwords that was heard, and when there were new ones.
	AnnotationRotationRequested = "apps.holdfast.dev/rotation-requested"
	AnnotationRotatedAt         = "apps.holdfast.dev/rotated-at"

	// AnnotationCredentialKeys, on credentials, names the keys that we have made sure of.
	AnnotationCredentialKeys = "apps.holdfast.dev/credential-keys"

	// AnnotationResetCredentials, on the credentials of a database, has the server started
	// once more with the password of root that is in them: for when nobody knows the one that it
	// has. Any text that it did not have before asks for it, by custom the time.
	AnnotationResetCredentials = "apps.holdfast.dev/reset-credentials"

	// AnnotationServerVersion and AnnotationServerImage, on a claim, are the version and the
	// image of the server that wrote what is on the volume.
	AnnotationServerVersion = "apps.holdfast.dev/server-version"
	AnnotationServerImage   = "apps.holdfast.dev/server-image"

	// AnnotationSchema, on a claim, is the name of the schema and of the account that those
	// use who are bound: it stays what it is when the component is renamed.
	AnnotationSchema = "apps.holdfast.dev/schema"

	// AnnotationReleased, set to "true" on a retained claim, says that no component is
	// meant to have it: others may start beside it.
	AnnotationReleased = "apps.holdfast.dev/released"
)

// FinalizerOrderedDeletion keeps an application until its components have gone in reverse
// order, and until what becomes of their data is settled. Only applications with dependencies
// or data have it.
const FinalizerOrderedDeletion = "apps.holdfast.dev/ordered-deletion"

// Field managers. Changing one strands every field it owns.
const (
	FieldManager       = "holdfast"
	FieldManagerStatus = "holdfast-status"
)
