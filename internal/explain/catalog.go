package explain

// Code says which of the known causes it is. Programs rely on codes: they stay.
type Code string

// CodeInfo is what is known about a cause before it is met.
type CodeInfo struct {
	Code     Code
	Severity Severity
	// Rank orders causes: what has to be there before anything else can work comes first.
	Rank int
	// Description says what it is, and Read where it is read from.
	Description, Source string
}

// Ranks.
const (
	rankRejected = iota // what is refused, or refers to what does not exist
	rankImage
	rankCrash
	rankProbe
	rankSchedule
	rankVolume
	rankNetwork
	rankNode
	rankLast
)

// The causes.
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

// Catalog are all causes, in the order in which people meet them.
var Catalog = []CodeInfo{
	{ImageNotFound, Error, rankImage, "The registry does not have the image, or not for the platform of the node.", "the waiting container"},
	{ImageAuth, Error, rankImage, "The registry refuses to give the image to us: it is private, or its name is wrong.", "the waiting container"},
	{RegistryUnreachable, Error, rankImage, "The registry does not answer the node, is not trusted, or limits how often it is asked.", "the waiting container"},
	{InvalidImageName, Error, rankImage, "What is given as the image cannot be the name of one.", "the waiting container"},
	{ImageNeverPull, Error, rankImage, "The pull policy is Never, and the node does not have the image.", "the waiting container"},
	{ImageSignature, Error, rankImage, "The node refuses the image: its signature is not valid there, or it cannot be inspected.", "the waiting container"},
	{ImagePull, Error, rankImage, "The image cannot be pulled, and what was answered is of no known kind.", "the waiting container"},

	{MissingConfigMap, Error, rankRejected, "The environment or a volume refers to a ConfigMap that does not exist.", "the waiting container; for volumes the ConfigMap itself or an event of the pod"},
	{MissingSecret, Error, rankRejected, "The environment or a volume refers to a Secret that does not exist.", "the waiting container; for volumes the Secret itself or an event of the pod"},
	{MissingKey, Error, rankRejected, "A ConfigMap or Secret is there and lacks a key that is referred to.", "the waiting container, or an event of the pod"},
	{MissingClaim, Error, rankRejected, "A volume is a PersistentVolumeClaim that does not exist.", "condition PodScheduled of the pod"},

	{StartError, Error, rankCrash, "The container cannot be started at all: its command is not in the image, or may not be run.", "the waiting or ended container"},
	{CrashLoop, Error, rankCrash, "The container ends again and again.", "the ended container; its last line is evidence"},
	{OOMKilled, Error, rankCrash, "The container is killed for its use of memory.", "the ended container and its memory limit"},
	{Killed, Error, rankCrash, "The container is killed from outside, and not for its use of memory.", "exit code 137 or 143 of the ended container"},
	{LivenessRestarts, Error, rankCrash, "The liveness probe fails, so the container is started anew each time.", "events of the pod"},
	{StartupFailing, Error, rankProbe, "The container has not passed its startup probe in the time it has for that.", "the running container, or events of the pod"},
	{ReadinessFailing, Error, rankProbe, "The container runs, and its readiness probe fails.", "the running container; what the probe got is in events of the pod"},
	{InitBlocked, Notice, rankLast, "An init container is still running; the others start after it.", "the running init container"},
	{ReadinessGate, Error, rankProbe, "All containers are ready; the pod waits for a condition that somebody else sets.", "condition Ready of the pod"},
	{PostStartHook, Error, rankCrash, "The postStart hook of a container fails, which ends the container.", "the waiting container"},

	{InsufficientCPU, Error, rankSchedule, "No node has enough CPU left.", "condition PodScheduled of the pod"},
	{InsufficientMemory, Error, rankSchedule, "No node has enough memory left.", "condition PodScheduled of the pod"},
	{InsufficientPods, Error, rankSchedule, "Every node holds as many pods as it may.", "condition PodScheduled of the pod"},
	{Insufficient, Error, rankSchedule, "No node has enough of another resource, for example GPUs.", "condition PodScheduled of the pod"},
	{Taints, Error, rankSchedule, "All nodes have taints that the pod does not tolerate.", "condition PodScheduled of the pod"},
	{NodeSelector, Error, rankSchedule, "No node is as the pod wants it: selector, affinity, spread or host ports.", "condition PodScheduled of the pod"},
	{Cordoned, Error, rankSchedule, "Nodes are cordoned: they take no new pods.", "condition PodScheduled of the pod"},
	{Unschedulable, Error, rankSchedule, "No node takes the pod, for several reasons or for one of no known kind.", "condition PodScheduled of the pod"},
	{SchedulingGated, Error, rankSchedule, "The pod has a scheduling gate that somebody else has to remove.", "condition PodScheduled of the pod"},
	{SchedulerError, Error, rankSchedule, "The scheduler itself met an error with the pod.", "condition PodScheduled of the pod"},

	{ClaimPending, Error, rankVolume, "A volume claim has no volume yet, and nothing says why.", "phase of the claim"},
	{StorageClassMissing, Error, rankVolume, "A volume claim asks for a StorageClass that does not exist, or for the default one and there is none.", "the claim and the StorageClasses, or events of the claim"},
	{ProvisioningFailed, Error, rankVolume, "The provisioner of a StorageClass fails to make a volume.", "events of the claim"},
	{ProvisionerNotResponding, Error, rankVolume, "Nothing answers for the provisioner of a StorageClass.", "a claim that is pending for two minutes, and its events"},
	{WaitForFirstConsumer, Notice, rankLast, "A volume is made when its pod has a node. This is normal.", "events of the claim"},
	{VolumeLost, Error, rankVolume, "The volume behind a claim is gone, or has failed.", "phase of the claim and of the volume"},
	{VolumeNodeAffinityConflict, Error, rankVolume, "A volume can only be used where no node fits, or no more volumes fit there.", "condition PodScheduled of the pod"},
	{AttachFailed, Error, rankVolume, "A volume cannot be attached to the node; often it is still attached to another one.", "events of the pod"},
	{MountFailed, Error, rankVolume, "A volume cannot be mounted.", "events of the pod"},
	{ResizeStuck, Error, rankVolume, "A volume that should grow does not.", "conditions of the claim"},

	{QuotaExceeded, Error, rankRejected, "A ResourceQuota of the namespace is used up.", "condition ReplicaFailure of the Deployment, an event of the StatefulSet or Job, or the answer to our own write"},
	{QuotaNeedsRequests, Error, rankRejected, "A ResourceQuota of the namespace wants every pod to say what it needs.", "as QuotaExceeded"},
	{LimitRange, Error, rankRejected, "A LimitRange of the namespace does not allow what a container asks for.", "as QuotaExceeded"},
	{PodSecurity, Error, rankRejected, "The namespace enforces a PodSecurity level that the pod violates.", "as QuotaExceeded"},
	{WebhookDenied, Error, rankRejected, "An admission webhook refuses the object.", "as QuotaExceeded"},
	{WebhookDown, Error, rankRejected, "An admission webhook does not answer, so nothing that it watches over can be written.", "as QuotaExceeded"},
	{PolicyDenied, Error, rankRejected, "A ValidatingAdmissionPolicy refuses the object.", "as QuotaExceeded"},
	{ServiceAccountMissing, Error, rankRejected, "The ServiceAccount of the pods does not exist.", "as QuotaExceeded"},
	{NamespaceTerminating, Error, rankRejected, "The namespace is being deleted, so nothing can be created in it.", "as QuotaExceeded"},
	{CreateFailed, Error, rankRejected, "Pods cannot be created, for a reason of no known kind.", "as QuotaExceeded"},

	{RolloutStuck, Error, rankLast, "A rollout made no progress within its deadline, and its pods do not say why.", "condition Progressing of the Deployment"},
	{Paused, Notice, rankLast, "Somebody has paused the Deployment.", "spec.paused of the Deployment"},
	{OrdinalBlocked, Error, rankLast, "A StatefulSet creates its pods one after the other, and waits for one of them.", "pods of the StatefulSet"},
	{UpdateBlocked, Error, rankRejected, "A StatefulSet was corrected, and a broken pod of the revision before keeps it from starting the new one.", "revisions of the StatefulSet and its pods"},
	{ScaledToZero, Notice, rankLast, "Nothing runs because nothing is asked for.", "spec.replicas of the workload"},
	{Suspended, Notice, rankLast, "The job or the component is suspended.", "spec.suspend"},
	{SelectorMismatch, Error, rankNetwork, "A Service selects labels that no pod has.", "the Service and the pods"},
	{NoReadyEndpoints, Error, rankNetwork, "A Service has pods, and none of them is ready: nobody answers.", "EndpointSlices of the Service"},
	{PortMismatch, Error, rankNetwork, "A port of a Service leads to a named port that no container has.", "the Service and the pods"},
	{LBPending, Error, rankNetwork, "A Service of type LoadBalancer has no address yet.", "status of the Service and its events"},
	{IngressBroken, Error, rankNetwork, "An Ingress refers to a class, Service or Secret that does not exist.", "the Ingress and what it refers to"},
	{RouteNotAccepted, Error, rankNetwork, "A Gateway does not accept the HTTPRoute, or what it leads to.", "parents in the status of the route"},

	{NodeNotReady, Error, rankNode, "The node of the pod does not report.", "conditions of the node; without a right to read it, a pod that is not ready although its containers are"},
	{NodePressure, Notice, rankNode, "The node of the pod is short of memory, disk or process ids.", "conditions of the node"},
	{Evicted, Error, rankNode, "The node needed back what the pod used, and ended it.", "reason of the failed pod"},
	{NodeAdmissionRejected, Error, rankNode, "The node turned the pod away.", "reason of the failed pod"},
	{Disrupted, Notice, rankNode, "The pod was drained, preempted or evicted, and is being replaced.", "condition DisruptionTarget of the pod"},
	{SandboxFailed, Error, rankNode, "The node cannot set up the network of the pod.", "events of the pod"},
	{StuckTerminating, Error, rankLast, "Something that was deleted is not gone long after it should be.", "finalizers, and the time of the deletion"},
	{JobFailed, Error, rankCrash, "A job has failed, every try of it.", "condition Failed of the Job"},
	{AutoscalerMetricsMissing, Notice, rankLast, "The autoscaler cannot read what it decides by, so it does not scale.", "conditions of the HorizontalPodAutoscaler"},

	{DependencyWait, Error, rankLast, "A component waits for another one, which is not ready.", "status of the application"},
	{FieldConflict, Error, rankRejected, "Somebody else keeps changing what Holdfast holds.", "what the operator saw while it repaired it"},
	{SpecNotObserved, Error, rankLast, "A controller has not looked at the latest change yet.", "generation and observedGeneration"},
	{NotReady, Error, rankLast, "An object of another kind says itself that it is not well.", "its conditions or its phase"},
}

var catalogByCode = func() map[Code]CodeInfo {
	all := map[Code]CodeInfo{}
	for _, e := range Catalog {
		all[e.Code] = e
	}
	return all
}()

// info is what is known about a cause. One that is not listed, of a newer program for
// example, counts as an error of the last rank.
func (c Code) info() CodeInfo {
	if e, ok := catalogByCode[c]; ok {
		return e
	}
	return CodeInfo{Code: c, Severity: Error, Rank: rankLast}
}

// DocURL is where people read more about a cause; nothing for one that is not listed.
func (c Code) DocURL() string {
	if _, ok := catalogByCode[c]; !ok {
		return ""
	}
	return "https://github.com/holdfast-dev/holdfast/blob/main/docs/user/causes.md#" + anchor(c)
}
