package explain

// Code identifies a cause. Codes are part of the API and do not change.
type Code string

// CodeInfo describes a known cause.
type CodeInfo struct {
	Code     Code
	Severity Severity
	// Rank orders causes: prerequisites come before what depends on them.
	Rank int
	// Description explains the cause, and Source names the field, condition or event that it is detected from.
	Description, Source string
}

// Ranks, from prerequisites to consequences.
const (
	rankRejected = iota // rejected by the API server, or a missing reference
	rankImage
	rankCrash
	rankProbe
	rankSchedule
	rankVolume
	rankNetwork
	rankNode
	rankLast
)

// Codes of all causes.
const (
	ImageNotFound       Code = "ImageNotFound"
	ImageAuth           Code = "ImageAuth"
	RegistryUnreachable Code = "RegistryUnreachable"
	InvalidImageName    Code = "InvalidImageName"
	ImageNeverPull      Code = "ImageNeverPull"
	ImageSignature      Code = "ImageSignature"
	ImagePull           Code = "ImagePull"

	MissingConfigMap Code = "MissingConfigMap"
	MissingSecret    Code = "MissingSecret"
	MissingKey       Code = "MissingKey"
	MissingClaim     Code = "MissingClaim"

	StartError       Code = "StartError"
	CrashLoop        Code = "CrashLoop"
	OOMKilled        Code = "OOMKilled"
	Killed           Code = "Killed"
	ReadinessFailing Code = "ReadinessFailing"
	StartupFailing   Code = "StartupFailing"
	LivenessRestarts Code = "LivenessRestarts"
	InitBlocked      Code = "InitBlocked"
	ReadinessGate    Code = "ReadinessGate"
	PostStartHook    Code = "PostStartHook"

	InsufficientCPU    Code = "InsufficientCPU"
	InsufficientMemory Code = "InsufficientMemory"
	InsufficientPods   Code = "InsufficientPods"
	Insufficient       Code = "Insufficient"
	Taints             Code = "Taints"
	NodeSelector       Code = "NodeSelector"
	Cordoned           Code = "Cordoned"
	Unschedulable      Code = "Unschedulable"
	SchedulingGated    Code = "SchedulingGated"
	SchedulerError     Code = "SchedulerError"

	ClaimPending               Code = "ClaimPending"
	StorageClassMissing        Code = "StorageClassMissing"
	ProvisioningFailed         Code = "ProvisioningFailed"
	ProvisionerNotResponding   Code = "ProvisionerNotResponding"
	WaitForFirstConsumer       Code = "WaitForFirstConsumer"
	VolumeLost                 Code = "VolumeLost"
	VolumeNodeAffinityConflict Code = "VolumeNodeAffinityConflict"
	AttachFailed               Code = "AttachFailed"
	MountFailed                Code = "MountFailed"
	ResizeStuck                Code = "ResizeStuck"

	QuotaExceeded         Code = "QuotaExceeded"
	QuotaNeedsRequests    Code = "QuotaNeedsRequests"
	LimitRange            Code = "LimitRange"
	PodSecurity           Code = "PodSecurity"
	WebhookDenied         Code = "WebhookDenied"
	WebhookDown           Code = "WebhookDown"
	PolicyDenied          Code = "PolicyDenied"
	ServiceAccountMissing Code = "ServiceAccountMissing"
	NamespaceTerminating  Code = "NamespaceTerminating"
	CreateFailed          Code = "CreateFailed"

	RolloutStuck     Code = "RolloutStuck"
	Paused           Code = "Paused"
	OrdinalBlocked   Code = "OrdinalBlocked"
	UpdateBlocked    Code = "UpdateBlocked"
	ScaledToZero     Code = "ScaledToZero"
	Suspended        Code = "Suspended"
	SelectorMismatch Code = "SelectorMismatch"
	NoReadyEndpoints Code = "NoReadyEndpoints"
	PortMismatch     Code = "PortMismatch"
	LBPending        Code = "LBPending"
	IngressBroken    Code = "IngressBroken"
	RouteNotAccepted Code = "RouteNotAccepted"

	NodeNotReady             Code = "NodeNotReady"
	NodePressure             Code = "NodePressure"
	Evicted                  Code = "Evicted"
	NodeAdmissionRejected    Code = "NodeAdmissionRejected"
	Disrupted                Code = "Disrupted"
	SandboxFailed            Code = "SandboxFailed"
	StuckTerminating         Code = "StuckTerminating"
	JobFailed                Code = "JobFailed"
	AutoscalerMetricsMissing Code = "AutoscalerMetricsMissing"

	DependencyWait  Code = "DependencyWait"
	FieldConflict   Code = "FieldConflict"
	SpecNotObserved Code = "SpecNotObserved"
	NotReady        Code = "NotReady"
)

// Catalog lists all causes in the order of the documentation.
var Catalog = []CodeInfo{
	{ImageNotFound, Error, rankImage, "The registry does not have the image, or has no image for the platform of the node.",
		"`state.waiting` of the container status"},
	{ImageAuth, Error, rankImage, "The registry denies access to the image: the image is private, or its name is wrong.",
		"`state.waiting` of the container status"},
	{RegistryUnreachable, Error, rankImage,
		"The node cannot reach the registry, does not trust its certificate, or exceeded its rate limit.",
		"`state.waiting` of the container status"},
	{InvalidImageName, Error, rankImage, "The image name is not valid.", "`state.waiting` of the container status"},
	{ImageNeverPull, Error, rankImage, "imagePullPolicy is Never, and the image is not present on the node.",
		"`state.waiting` of the container status"},
	{ImageSignature, Error, rankImage, "The node rejects the image: its signature is not valid, or the image cannot be inspected.",
		"`state.waiting` of the container status"},
	{ImagePull, Error, rankImage, "The image cannot be pulled for an unknown reason.", "`state.waiting` of the container status"},

	{MissingConfigMap, Error, rankRejected, "An environment variable or a volume refers to a ConfigMap that does not exist.",
		"`state.waiting` of the container status; for volumes, the ConfigMap itself or an event of the pod"},
	{MissingSecret, Error, rankRejected, "An environment variable or a volume refers to a Secret that does not exist.",
		"`state.waiting` of the container status; for volumes, the Secret itself or an event of the pod"},
	{MissingKey, Error, rankRejected, "An environment variable or a volume refers to a key that the ConfigMap or Secret does not have.",
		"`state.waiting` of the container status, or an event of the pod"},
	{MissingClaim, Error, rankRejected, "A volume refers to a PersistentVolumeClaim that does not exist.",
		"condition PodScheduled of the pod"},

	{StartError, Error, rankCrash, "The container cannot be started: its command is not in the image, or is not executable.",
		"`state.waiting` or `state.terminated` of the container status"},
	{CrashLoop, Error, rankCrash, "The container exits repeatedly.",
		"the last termination of the container; its last log line is evidence"},
	{OOMKilled, Error, rankCrash, "The container was killed because it ran out of memory.",
		"the last termination of the container and its memory limit"},
	{Killed, Error, rankCrash, "The container was killed by a signal, but not by the OOM killer.",
		"exit code 137 or 143 of the last termination of the container"},
	{LivenessRestarts, Error, rankCrash, "The liveness probe fails, so the kubelet restarts the container repeatedly.",
		"events of the pod"},
	{StartupFailing, Error, rankProbe, "The container does not pass its startup probe in time.",
		"`state.running` of the container status, or events of the pod"},
	{ReadinessFailing, Error, rankProbe, "The container is running, but its readiness probe fails.",
		"`state.running` of the container status; the probe results are in events of the pod"},
	{InitBlocked, Notice, rankLast, "An init container is still running; the other containers start after it.",
		"`state.running` of the init container status"},
	{ReadinessGate, Error, rankProbe, "All containers are ready, but a readiness gate of the pod is not true.",
		"condition Ready of the pod"},
	{PostStartHook, Error, rankCrash, "The postStart hook of a container fails, so the kubelet kills the container.",
		"`state.waiting` of the container status"},

	{InsufficientCPU, Error, rankSchedule, "No node has enough free CPU.", "condition PodScheduled of the pod"},
	{InsufficientMemory, Error, rankSchedule, "No node has enough free memory.", "condition PodScheduled of the pod"},
	{InsufficientPods, Error, rankSchedule, "All nodes reached their pod limit.", "condition PodScheduled of the pod"},
	{Insufficient, Error, rankSchedule, "No node has enough of another resource, for example GPUs.", "condition PodScheduled of the pod"},
	{Taints, Error, rankSchedule, "All nodes have taints that the pod does not tolerate.", "condition PodScheduled of the pod"},
	{NodeSelector, Error, rankSchedule,
		"No node matches the node selector, affinity, topology spread constraints or host ports of the pod.",
		"condition PodScheduled of the pod"},
	{Cordoned, Error, rankSchedule, "Nodes are cordoned, so no new pods are scheduled to them.", "condition PodScheduled of the pod"},
	{Unschedulable, Error, rankSchedule, "The pod cannot be scheduled, for several reasons or for an unknown reason.",
		"condition PodScheduled of the pod"},
	{SchedulingGated, Error, rankSchedule, "The pod has a scheduling gate that has not been removed yet.",
		"condition PodScheduled of the pod"},
	{SchedulerError, Error, rankSchedule, "The scheduler reported an error for the pod.", "condition PodScheduled of the pod"},

	{ClaimPending, Error, rankVolume, "A PersistentVolumeClaim is not bound yet, and its events show no cause.", "phase of the claim"},
	{StorageClassMissing, Error, rankVolume,
		"A PersistentVolumeClaim asks for a StorageClass that does not exist, or for the default StorageClass of a cluster that has none.",
		"the claim and the StorageClasses, or events of the claim"},
	{ProvisioningFailed, Error, rankVolume, "The provisioner of a StorageClass failed to create a volume.", "events of the claim"},
	{ProvisionerNotResponding, Error, rankVolume, "The provisioner of a StorageClass does not respond.",
		"a claim that is pending for two minutes, and its events"},
	{WaitForFirstConsumer, Notice, rankLast, "A volume is provisioned when its pod is scheduled. This is normal.", "events of the claim"},
	{VolumeLost, Error, rankVolume, "The PersistentVolume of a claim is lost, or has failed.", "phase of the claim and of the volume"},
	{VolumeNodeAffinityConflict, Error, rankVolume,
		"No node can use the volume: volume node affinity conflict, a ReadWriteOncePod volume in use, or the volume limit of the nodes.",
		"condition PodScheduled of the pod"},
	{AttachFailed, Error, rankVolume, "A volume cannot be attached to the node; often it is still attached to another node.",
		"events of the pod"},
	{MountFailed, Error, rankVolume, "A volume cannot be mounted.", "events of the pod"},
	{ResizeStuck, Error, rankVolume, "A volume is not expanded to the requested size.", "conditions of the claim"},

	{QuotaExceeded, Error, rankRejected, "A ResourceQuota of the namespace is exceeded.",
		"condition ReplicaFailure of the Deployment, an event of the StatefulSet or Job, or the API server's response to the operator"},
	{QuotaNeedsRequests, Error, rankRejected, "A ResourceQuota of the namespace requires every pod to set requests or limits.",
		"same as QuotaExceeded"},
	{LimitRange, Error, rankRejected, "The requests or limits of a container violate a LimitRange of the namespace.", "same as QuotaExceeded"},
	{PodSecurity, Error, rankRejected, "The namespace enforces a PodSecurity level that the pod violates.", "same as QuotaExceeded"},
	{WebhookDenied, Error, rankRejected, "An admission webhook denies the object.", "same as QuotaExceeded"},
	{WebhookDown, Error, rankRejected,
		"The API server cannot call an admission webhook, so objects that the webhook covers cannot be created or changed.",
		"same as QuotaExceeded"},
	{PolicyDenied, Error, rankRejected, "A ValidatingAdmissionPolicy denies the object.", "same as QuotaExceeded"},
	{ServiceAccountMissing, Error, rankRejected, "The ServiceAccount of the pods does not exist.", "same as QuotaExceeded"},
	{NamespaceTerminating, Error, rankRejected, "The namespace is being deleted, so objects cannot be created in it.",
		"same as QuotaExceeded"},
	{CreateFailed, Error, rankRejected, "Pods cannot be created for an unknown reason.", "same as QuotaExceeded"},

	{RolloutStuck, Error, rankLast, "A rollout made no progress within its progress deadline, and the status of its pods shows no cause.",
		"condition Progressing of the Deployment"},
	{Paused, Notice, rankLast, "The rollout of the Deployment is paused.", "`spec.paused` of the Deployment"},
	{OrdinalBlocked, Error, rankLast, "A StatefulSet creates its pods in order and waits until the previous pod is ready.",
		"pods of the StatefulSet"},
	{UpdateBlocked, Error, rankRejected,
		"A StatefulSet was updated, but a pod of the previous revision is not ready and blocks the rollout.",
		"revisions of the StatefulSet and its pods"},
	{ScaledToZero, Notice, rankLast, "The workload is scaled to zero replicas.", "`spec.replicas` of the workload"},
	{Suspended, Notice, rankLast, "The job or the component is suspended.", "`spec.suspend`"},
	{SelectorMismatch, Error, rankNetwork, "The selector of a Service matches no pod.", "the Service and the pods"},
	{NoReadyEndpoints, Error, rankNetwork, "A Service has no ready endpoints: none of its pods is ready.", "EndpointSlices of the Service"},
	{PortMismatch, Error, rankNetwork, "A Service has a named targetPort that no container declares.", "the Service and the pods"},
	{LBPending, Error, rankNetwork, "A Service of type LoadBalancer has no address yet.", "status of the Service and its events"},
	{IngressBroken, Error, rankNetwork, "An Ingress refers to an IngressClass, Service or Secret that does not exist.",
		"the Ingress and the objects that it refers to"},
	{RouteNotAccepted, Error, rankNetwork, "A Gateway does not accept the HTTPRoute, or cannot resolve its backends.",
		"`status.parents` of the HTTPRoute"},

	{NodeNotReady, Error, rankNode, "The node of the pod is not ready.",
		"conditions of the node; if nodes cannot be read: a pod that is not ready while all of its containers are ready"},
	{NodePressure, Notice, rankNode, "The node of the pod has memory, disk or PID pressure, or no network.", "conditions of the node"},
	{Evicted, Error, rankNode,
		"The pod was evicted because its node ran short of resources, or because the pod exceeded its ephemeral-storage limit.",
		"reason of the failed pod"},
	{NodeAdmissionRejected, Error, rankNode, "The node rejected the pod.", "reason of the failed pod"},
	{Disrupted, Notice, rankNode, "The pod was drained, preempted or evicted, and is being replaced.",
		"condition DisruptionTarget of the pod"},
	{SandboxFailed, Error, rankNode, "The node cannot create the sandbox and network of the pod.", "events of the pod"},
	{StuckTerminating, Error, rankLast, "The deletion of an object does not complete.", "finalizers and the deletion time"},
	{JobFailed, Error, rankCrash, "A Job failed, including all of its retries.", "condition Failed of the Job"},
	{AutoscalerMetricsMissing, Notice, rankLast, "The HorizontalPodAutoscaler cannot read its metrics, so it does not scale.",
		"conditions of the HorizontalPodAutoscaler"},

	{DependencyWait, Error, rankLast, "A component waits for another component that is not ready.", "status of the application"},
	{FieldConflict, Error, rankRejected, "Another field manager keeps changing fields that Holdfast manages.",
		"drift that the operator corrects repeatedly"},
	{SpecNotObserved, Error, rankLast, "A controller has not observed the latest change of an object.",
		"generation and observedGeneration"},
	{NotReady, Error, rankLast, "A custom resource reports that it is not ready.", "its conditions or its phase"},
}

var catalogByCode = func() map[Code]CodeInfo {
	all := map[Code]CodeInfo{}
	for _, e := range Catalog {
		all[e.Code] = e
	}
	return all
}()

// info returns the catalog entry of a code. An unknown code, for example from a newer version,
// counts as an error of the last rank.
func (c Code) info() CodeInfo {
	if e, ok := catalogByCode[c]; ok {
		return e
	}
	return CodeInfo{Code: c, Severity: Error, Rank: rankLast}
}

// docs is the base URL of the documentation for users.
const docs = "https://github.com/holdfast-dev/holdfast/blob/main/docs/user/"

// reasonPages are the pages about reasons of the condition Ready that are no causes of this catalog.
var reasonPages = map[Code]string{
	"BindingConflict":              "conditions/BindingConflict.md",
	"CredentialSourceMissing":      "conditions/CredentialSourceMissing.md",
	"CredentialsLost":              "conditions/CredentialsLost.md",
	"CredentialsMismatch":          "conditions/CredentialsMismatch.md",
	"DataConflict":                 "conditions/DataConflict.md",
	"DatabaseAccessDenied":         "conditions/DatabaseAccessDenied.md",
	"DatabaseCertificateInvalid":   "conditions/DatabaseCertificateInvalid.md",
	"DatabaseConnectionsExhausted": "conditions/DatabaseConnectionsExhausted.md",
	"DatabaseProtocolViolation":    "conditions/DatabaseProtocolViolation.md",
	"DatabaseStarting":             "conditions/DatabaseStarting.md",
	"DatabaseUnresponsive":         "conditions/DatabaseUnresponsive.md",
	"NameConflict":                 "appservice.md#adopt-existing-objects",
	"StorageChangeRejected":        "data-safety.md#move-data-to-another-storageclass-or-a-smaller-volume",
	"VersionMismatch":              "conditions/VersionMismatch.md",
}

// DocURL returns the documentation URL of a cause or of a reason of the condition Ready, or "" for an unknown
// code.
func (c Code) DocURL() string {
	if page := reasonPages[c]; page != "" {
		return docs + page
	}
	if _, ok := catalogByCode[c]; ok {
		return docs + "causes.md#" + anchor(c)
	}
	return ""
}
