package v1alpha1

// Types of conditions. Ready and Applied are always there; Reconciling and Stalled only
// while they are True.
const (
	// ConditionReady sums up: applied, healthy, and about the current generation.
	ConditionReady = "Ready"
	// ConditionApplied says that the API server accepted every object due now.
	ConditionApplied = "Applied"
	// ConditionReconciling says that work on this generation is in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled says that nothing will move without an edit or outside help.
	ConditionStalled = "Stalled"
)

// Reasons of conditions.
const (
	// ReasonReconciled is set when everything is as declared.
	ReasonReconciled = "Reconciled"
	// ReasonProgressing is set while a change is rolling out.
	ReasonProgressing = "Progressing"
	// ReasonWaitingForDependency is set while a component waits for another one.
	ReasonWaitingForDependency = "WaitingForDependency"
	// ReasonDeleting is set while the object is being deleted, component by component.
	ReasonDeleting = "Deleting"
	// ReasonComponentDegraded is set when something that should run does not, and why is known.
	ReasonComponentDegraded = "ComponentDegraded"
	// ReasonRolloutTimedOut is set when a rollout made no progress within its deadline.
	ReasonRolloutTimedOut = "RolloutTimedOut"
	// ReasonInvalidSpec is set when the spec can never work; only an edit helps.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonApplyFailed is set when the API server refused an object or could not be reached.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonPruneFailed is set when an object that is no longer wanted could not be deleted.
	ReasonPruneFailed = "PruneFailed"
	// ReasonNameConflict is set when an object of somebody else has the name of a child.
	ReasonNameConflict = "NameConflict"
	// ReasonDataConflict is set when a component would start empty beside its data, or with
	// the data of somebody else.
	ReasonDataConflict = "DataConflict"
	// ReasonCredentialsLost is set when there is data and the password to it is gone.
	ReasonCredentialsLost = "CredentialsLost"
	// ReasonCredentialSourceMissing is set when credentials are to be copied from what is not there.
	ReasonCredentialSourceMissing = "CredentialSourceMissing"
	// ReasonCredentialsMismatch is set when no stored password opens a database.
	ReasonCredentialsMismatch = "CredentialsMismatch"
	// ReasonRotating is set while passwords of a database are being replaced.
	ReasonRotating = "Rotating"
	// ReasonDatabaseStarting is set while the server of a database runs and lets nobody in yet.
	ReasonDatabaseStarting = "DatabaseStarting"
	// ReasonDatabaseConnectionsExhausted is set when a database has no connection left.
	ReasonDatabaseConnectionsExhausted = "DatabaseConnectionsExhausted"
	// ReasonDatabaseUnresponsive is set when a database runs and does not answer.
	ReasonDatabaseUnresponsive = "DatabaseUnresponsive"
	// ReasonDatabaseAccessDenied is set when a database does not let the operator do its work.
	ReasonDatabaseAccessDenied = "DatabaseAccessDenied"
	// ReasonVersionMismatch is set when a database is not run by the version that the spec says.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonBindingConflict is set when the name of a binding is somebody else's.
	ReasonBindingConflict = "BindingConflict"
	// ReasonStorageResizing is set while volumes grow.
	ReasonStorageResizing = "StorageResizing"
	// ReasonStorageChangeRejected is set when volumes cannot become what the spec asks for; what
	// runs is not touched.
	ReasonStorageChangeRejected = "StorageChangeRejected"
	// ReasonSuspended is set while spec.suspend keeps the operator from writing.
	ReasonSuspended = "Suspended"
	// ReasonInternalError is set when something could not be read, so that nothing is known.
	ReasonInternalError = "InternalError"
)
