package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Component is one part of an application. Every kind becomes a list of them.
type Component struct {
	// name of the component, unique within the application.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="a component's name is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	Name string `json:"name"`

	// resourceName is the name of the children, if it is not to be
	// <application>-<component>.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="resourceName becomes the name of a Service: it is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	ResourceName string `json:"resourceName,omitempty"`

	// suspend makes the operator keep its hands off this component: nothing is
	// written, what runs keeps running.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// service is a long-running service: a Deployment and, with ports, a Service.
	// +optional
	Service *ServiceComponent `json:"service,omitempty"`
}

// ServiceComponent is a service that runs from one image.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.size() < 2 || self.ports.all(p, has(p.name))",fieldPath=".ports",message="with several ports each needs a name, for example {name: http, port: 80}"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, !has(p.name) || self.ports.exists_one(o, has(o.name) && o.name == p.name))",fieldPath=".ports",message="two ports have the same name; give each its own, for example dns and dns-tcp"
// +kubebuilder:validation:XValidation:rule="(has(self.service) && has(self.service.type) && self.service.type == 'Headless') == (has(oldSelf.service) && has(oldSelf.service.type) && oldSelf.service.type == 'Headless')",fieldPath=".service.type",message="a Service cannot become Headless, or stop being it, while it exists; keep the type, or use a new name"
// +kubebuilder:validation:XValidation:rule="!has(self.preStopSleepSeconds) || self.preStopSleepSeconds <= (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)",fieldPath=".preStopSleepSeconds",message="preStopSleepSeconds is part of terminationGracePeriodSeconds (30 unless set) and cannot be longer; lower the one or raise the other"
type ServiceComponent struct {
	ContainerSpec `json:",inline"`

	// probes tell whether the container works.
	// +optional
	Probes Probes `json:"probes,omitzero"`

	// preStopSleepSeconds is how long a pod that is being replaced keeps serving,
	// so that no request is lost while the rest of the cluster learns of it.
	// Default 5 when there are ports, or terminationGracePeriodSeconds if that is
	// less; 0 without ports.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PreStopSleepSeconds *int32 `json:"preStopSleepSeconds,omitempty"`

	// replicas is how many pods run. Unset means: starts with 1, and afterwards
	// the live count is left alone, so that an autoscaler of the Deployment may
	// set it. The scale subresource, which an autoscaler of this object reads,
	// answers only while replicas is set; `kubectl scale` on this object sets it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// ports the container listens on. A Service of the same name leads to them;
	// without ports there is no Service.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=16
	Ports []Port `json:"ports,omitempty"`

	// service says how the ports are reached.
	// +optional
	Service ServiceSettings `json:"service,omitzero"`

	// update says how a change reaches running pods.
	// +optional
	Update UpdateSettings `json:"update,omitzero"`

	// security says what the pods may do and as whom they run.
	// +optional
	Security SecuritySettings `json:"security,omitzero"`
}

// ContainerSpec is the container, the same for every type of component.
type ContainerSpec struct {
	// image to run, for example nginx:1.27 or
	// registry.example.com/shop/web@sha256:...
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^[:space:]]+$')",message="say which image to run, without spaces, for example nginx:1.27"
	Image string `json:"image"`

	// imagePullPolicy says when the image is pulled. Unset means Always for the
	// tag latest or no tag, IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets of this namespace with the credentials of
	// registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// command replaces the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entrypoint.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=32768
	Args []string `json:"args,omitempty"`

	// env are environment variables, with a value or valueFrom a ConfigMap, a
	// Secret or a field of the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom takes every key of a ConfigMap or a Secret as an environment
	// variable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are what the container is promised and what it may use at most,
	// for example {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// terminationGracePeriodSeconds is how long a pod may take to end before it is
	// killed, preStopSleepSeconds included. Default 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds *int32 `json:"terminationGracePeriodSeconds,omitempty"`
}

// LocalReference names an object of the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Probes tell whether a container works.
type Probes struct {
	// readiness decides whether the pod gets requests. Default: the first TCP port
	// accepts a connection.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe needs exactly one of httpGet, tcpSocket, grpc and exec"
	Readiness *corev1.Probe `json:"readiness,omitempty"`

	// liveness decides whether the container is restarted. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe needs exactly one of httpGet, tcpSocket, grpc and exec"
	Liveness *corev1.Probe `json:"liveness,omitempty"`

	// startup holds back the other probes until it has succeeded once. Default:
	// none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe needs exactly one of httpGet, tcpSocket, grpc and exec"
	Startup *corev1.Probe `json:"startup,omitempty"`
}

// Port is a port of the container and the port of the Service that leads to
// it.
type Port struct {
	// name of the port, for example http. Required when there are several.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$') && self.matches('[a-z]')",message="a port's name is made of a-z, 0-9 and single - between them, with at least one letter, for example http or grpc-web"
	Name string `json:"name,omitempty"`

	// port of the Service, and of the container unless targetPort says otherwise.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort is the port the container listens on. Default: port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`

	// protocol of the port: TCP, UDP or SCTP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// ServiceType says how a Service is reached.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;Headless
type ServiceType string

// How a Service is reached.
const (
	ServiceClusterIP    ServiceType = "ClusterIP"
	ServiceNodePort     ServiceType = "NodePort"
	ServiceLoadBalancer ServiceType = "LoadBalancer"
	ServiceHeadless     ServiceType = "Headless"
)

// AnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// ServiceSettings shape a Service.
type ServiceSettings struct {
	// type is how the Service is reached: ClusterIP inside the cluster, NodePort
	// on every node, LoadBalancer from outside, Headless by the addresses of the
	// pods. Default ClusterIP.
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// annotations of the Service, for example for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/'))",message="annotations that begin with apps.holdfast.dev/ are set by Holdfast alone; remove them here"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// sessionAffinity says whether a client keeps its pod: with ClientIP all its
	// connections go to the same one. Default None.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
}

// UpdateSettings say how a change reaches running pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !(self.maxSurge == 0 || self.maxSurge == '0%') || (has(self.maxUnavailable) && !(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="an update needs room: maxSurge and maxUnavailable (0 unless set) cannot both be 0; raise one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.minReadySeconds) || self.minReadySeconds < (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600)",fieldPath=".minReadySeconds",message="minReadySeconds must be less than progressDeadlineSeconds (600 unless set), or every update would count as stalled; lower the one or raise the other"
type UpdateSettings struct {
	// maxSurge is how many pods may exist beyond replicas during an update: a
	// number or a percentage, for example 1 or 25%. Default 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="say a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is how many pods may be missing during an update: a number or
	// a percentage, for example 1 or 25%. Default 0: no pod goes before a new one
	// serves.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="say a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is how long a new pod must be ready before it counts.
	// Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is after how long without progress an update counts
	// as stalled; it goes on nevertheless. Default 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// restartedAt replaces all pods whenever it changes. Any text will do; a time
	// tells others when it was.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	RestartedAt string `json:"restartedAt,omitempty"`
}

// SecurityLevel says which of the Pod Security Standards pods keep.
// +kubebuilder:validation:Enum=Baseline;Restricted
type SecurityLevel string

// The levels.
const (
	SecurityBaseline   SecurityLevel = "Baseline"
	SecurityRestricted SecurityLevel = "Restricted"
)

// SecuritySettings say what pods may do and as whom they run.
//
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.level != 'Restricted' || !has(self.runAsUser) || self.runAsUser != 0",fieldPath=".runAsUser",message="level Restricted does not run as user 0 (root); choose another user, or level Baseline"
type SecuritySettings struct {
	// level says how little the pods may do. Baseline gives them the runtime's
	// seccomp profile and no way to more privileges; Restricted also demands a
	// user other than root and drops all capabilities. Default Baseline.
	// +optional
	Level SecurityLevel `json:"level,omitempty"`

	// runAsUser is the user id of the container. Default: the image's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the group id of the container. Default: the image's.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group that owns the volumes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// readOnlyRootFilesystem forbids writing outside of volumes. Default false.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
}

// ApplicationStatus is the part of the status that every kind has.
type ApplicationStatus struct {
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready and Applied, and Reconciling and Stalled while they are
	// True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// causes are why it is not ready, the most important first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Causes []Cause `json:"causes,omitempty"`
}

// Cause is why something is not ready.
type Cause struct {
	// code says which of the known causes it is, for example ImageNotFound.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`

	// message is one sentence that names what is wrong.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// object is where it was seen.
	// +required
	Object ObjectReference `json:"object"`

	// since is when it began.
	// +required
	Since metav1.Time `json:"since"`
}

// ObjectReference names an object of the same namespace.
type ObjectReference struct {
	// kind of the object.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}
