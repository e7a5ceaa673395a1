package v1alpha1

// Types of conditions. Ready and Applied are always present; Reconciling and Stalled only while
// they are True.
const (
	// ConditionReady is True when every object of the current generation is applied and healthy.
	ConditionReady = "Ready"
	// ConditionApplied is True when the API server has accepted every object that is due now.
	ConditionApplied = "Applied"
	// ConditionReconciling is True while a change of the current generation is in progress.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when progress requires a change of the spec or of the cluster.
	ConditionStalled = "Stalled"
)

// Reasons of conditions.
const (
	// ReasonReconciled is set when everything runs as declared.
	ReasonReconciled = "Reconciled"
	// ReasonProgressing is set while a change is rolled out.
	ReasonProgressing = "Progressing"
	// ReasonWaitingForDependency is set while a component waits for another component.
	ReasonWaitingForDependency = "WaitingForDependency"
	// ReasonDeleting is set while the application is being deleted, component by component.
	ReasonDeleting = "Deleting"
	// ReasonComponentDegraded is set when a component does not run and the cause is known.
	ReasonComponentDegraded = "ComponentDegraded"
	// ReasonRolloutTimedOut is set when a rollout makes no progress within its deadline.
	ReasonRolloutTimedOut = "RolloutTimedOut"
	// ReasonInvalidSpec is set when the spec is invalid and must be changed.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonApplyFailed is set when the API server rejects an object or is unreachable.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonPruneFailed is set when an object that is no longer declared cannot be deleted.
	ReasonPruneFailed = "PruneFailed"
	// ReasonNameConflict is set when an object with the name of a child is not controlled by the
	// application.
	ReasonNameConflict = "NameConflict"
	// ReasonFieldConflict is set when another field manager has set a field that conflicts with a
	// declared field.
	ReasonFieldConflict = "FieldConflict"
	// ReasonDataConflict is set when a component would start without its existing data, or with the
	// data of another component.
	ReasonDataConflict = "DataConflict"
	// ReasonCredentialsLost is set when the password of existing data is missing.
	ReasonCredentialsLost = "CredentialsLost"
	// ReasonCredentialSourceMissing is set when the Secret from which credentials are copied does not
	// exist.
	ReasonCredentialSourceMissing = "CredentialSourceMissing"
	// ReasonCredentialsMismatch is set when a database accepts none of the stored passwords.
	ReasonCredentialsMismatch = "CredentialsMismatch"
	// ReasonRotating is set while passwords of a database are being rotated.
	ReasonRotating = "Rotating"
	// ReasonDatabaseStarting is set while a database server runs and does not accept logins yet.
	ReasonDatabaseStarting = "DatabaseStarting"
	// ReasonDatabaseConnectionsExhausted is set when a database has no free connections.
	ReasonDatabaseConnectionsExhausted = "DatabaseConnectionsExhausted"
	// ReasonDatabaseUnresponsive is set when a database runs and does not respond.
	ReasonDatabaseUnresponsive = "DatabaseUnresponsive"
	// ReasonDatabaseCertificateInvalid is set when a server does not prove that it is the server of the database.
	ReasonDatabaseCertificateInvalid = "DatabaseCertificateInvalid"
	// ReasonDatabaseProtocolViolation is set when a server does not behave like MariaDB.
	ReasonDatabaseProtocolViolation = "DatabaseProtocolViolation"
	// ReasonDatabaseAccessDenied is set when a database rejects a login or statement of the operator.
	ReasonDatabaseAccessDenied = "DatabaseAccessDenied"
	// ReasonVersionMismatch is set when a database server has another version than the spec.
	ReasonVersionMismatch = "VersionMismatch"
	// ReasonBindingConflict is set when the Secret with the name of a binding is not controlled by the
	// application.
	ReasonBindingConflict = "BindingConflict"
	// ReasonStorageResizing is set while volumes are being expanded.
	ReasonStorageResizing = "StorageResizing"
	// ReasonStorageChangeRejected is set when volumes cannot be changed as the spec requests. Running
	// pods are not changed.
	ReasonStorageChangeRejected = "StorageChangeRejected"
	// ReasonSuspended is set while spec.suspend pauses reconciliation.
	ReasonSuspended = "Suspended"
	// ReasonInternalError is set when the cluster state could not be read.
	ReasonInternalError = "InternalError"
)
