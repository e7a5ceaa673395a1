package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServiceComponent is a service that runs from one image.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",fieldPath=".autoscaling",message="autoscaling decides how many pods run; remove replicas, or autoscaling"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || has(self.ports) && self.ports.size() > 0",fieldPath=".expose",message="there is nothing to expose without ports; add the port that the container listens on, for example ports: [{port: 80}]"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.expose.paths) || !has(self.ports) || self.expose.paths.all(p, !has(p.port) || self.ports.exists(o, o.port == p.port))",fieldPath=".expose.paths",message="a path leads to a port that is not in ports; correct the number, or add the port"
type ServiceComponent struct {
	ServerSpec `json:",inline"`

	// autoscaling lets Kubernetes choose how many pods run, with a
	// HorizontalPodAutoscaler. It excludes replicas. Switching it on or off leaves
	// the number of pods as it is at that moment.
	// +optional
	Autoscaling *AutoscalingSettings `json:"autoscaling,omitempty"`

	// expose makes the service reachable from outside of the cluster.
	// +optional
	Expose *ExposeSettings `json:"expose,omitempty"`
}

// ServerSpec is what a program that serves for ever consists of, with data or without.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.size() < 2 || self.ports.all(p, has(p.name))",fieldPath=".ports",message="with several ports each needs a name, for example {name: http, port: 80}"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, !has(p.name) || self.ports.exists_one(o, has(o.name) && o.name == p.name))",fieldPath=".ports",message="two ports have the same name; give each its own, for example dns and dns-tcp"
// +kubebuilder:validation:XValidation:rule="(has(self.service) && has(self.service.type) && self.service.type == 'Headless') == (has(oldSelf.service) && has(oldSelf.service.type) && oldSelf.service.type == 'Headless')",fieldPath=".service.type",message="a Service cannot become Headless, or stop being it, while it exists; keep the type, or use a new name"
// +kubebuilder:validation:XValidation:rule="!has(self.preStopSleepSeconds) || self.preStopSleepSeconds <= (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)",fieldPath=".preStopSleepSeconds",message="preStopSleepSeconds is part of terminationGracePeriodSeconds (30 unless set) and cannot be longer; lower the one or raise the other"
type ServerSpec struct {
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
	// the live count is left alone, so that an autoscaler of the workload may set
	// it. The scale subresource, which an autoscaler of this object reads,
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

	// disruption says how many pods may be missing while nodes are emptied.
	// +optional
	Disruption DisruptionSettings `json:"disruption,omitzero"`

	PodSettings `json:",inline"`
}

// AutoscalingSettings let Kubernetes choose how many pods run.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetCPUUtilization) || has(self.targetMemoryUtilization)",message="autoscaling needs something to aim at: set targetCPUUtilization or targetMemoryUtilization, for example 70"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas cannot be more than maxReplicas; lower the one or raise the other"
type AutoscalingSettings struct {
	// minReplicas is how many pods run at least. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is how many pods run at most.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilization is the average use of CPU to aim at, in percent of what
	// resources.requests.cpu promises, for example 70.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilization int32 `json:"targetCPUUtilization,omitempty"`

	// targetMemoryUtilization is the average use of memory to aim at, in percent
	// of what resources.requests.memory promises, for example 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilization int32 `json:"targetMemoryUtilization,omitempty"`
}

// DisruptionBudget says whether there is a PodDisruptionBudget.
// +kubebuilder:validation:Enum=Auto;None
type DisruptionBudget string

// Whether there is a PodDisruptionBudget.
const (
	DisruptionAuto DisruptionBudget = "Auto"
	DisruptionNone DisruptionBudget = "None"
)

// DisruptionSettings say how many pods may be missing while nodes are emptied.
type DisruptionSettings struct {
	// budget Auto makes a PodDisruptionBudget when replicas or
	// autoscaling.minReplicas is more than 1, None never. Default Auto.
	// +optional
	Budget DisruptionBudget `json:"budget,omitempty"`

	// maxUnavailable is how many pods may be missing: a number or a percentage,
	// for example 1 or 25%. Pods that are not ready may always go. Default 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^(100|[1-9][0-9]?)%$')",message="say a number of pods from 1 without quotes, or a percentage from 1% to 100%; with 0 no node could ever be emptied"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
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
