package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// ServiceComponent is a long-running service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replicas)",fieldPath=".autoscaling",message="autoscaling and replicas are mutually exclusive; remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || has(self.ports) && self.ports.size() > 0",fieldPath=".expose",message="expose requires ports; add the port that the container listens on, for example ports: [{port: 80}]"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || !has(self.expose.paths) || !has(self.ports) || self.expose.paths.all(p, !has(p.port) || self.ports.exists(o, o.port == p.port))",fieldPath=".expose.paths",message="a path references a port that is not in ports; correct the port number, or add the port"
type ServiceComponent struct {
	ServerSpec `json:",inline"`

	// autoscaling creates a HorizontalPodAutoscaler. It cannot be combined with
	// replicas. Enabling or disabling it does not change the current number of
	// pods.
	// +optional
	Autoscaling *AutoscalingSettings `json:"autoscaling,omitempty"`

	// expose makes the service reachable from outside the cluster with an
	// HTTPRoute or an Ingress.
	// +optional
	Expose *ExposeSettings `json:"expose,omitempty"`
}

// ServerSpec configures a long-running program, with or without persistent
// volumes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.size() < 2 || self.ports.all(p, has(p.name))",fieldPath=".ports",message="each port must have a name if there is more than one, for example {name: http, port: 80}"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.ports.all(p, !has(p.name) || self.ports.exists_one(o, has(o.name) && o.name == p.name))",fieldPath=".ports",message="two ports have the same name; use different names, for example dns and dns-tcp"
// +kubebuilder:validation:XValidation:rule="(has(self.service) && has(self.service.type) && self.service.type == 'Headless') == (has(oldSelf.service) && has(oldSelf.service.type) && oldSelf.service.type == 'Headless')",fieldPath=".service.type",message="an existing Service cannot change to or from type Headless; keep the type, or use a new name"
// +kubebuilder:validation:XValidation:rule="!has(self.preStopSleepSeconds) || self.preStopSleepSeconds <= (has(self.terminationGracePeriodSeconds) ? self.terminationGracePeriodSeconds : 30)",fieldPath=".preStopSleepSeconds",message="preStopSleepSeconds must not exceed terminationGracePeriodSeconds (default 30); lower preStopSleepSeconds or raise terminationGracePeriodSeconds"
type ServerSpec struct {
	ContainerSpec `json:",inline"`

	// probes are the probes of the container.
	// +optional
	Probes Probes `json:"probes,omitzero"`

	// preStopSleepSeconds is the time in seconds that a terminating pod keeps
	// serving, so that no request is lost while the pod is removed from the
	// endpoints. Default for a service with ports: 5, or
	// terminationGracePeriodSeconds if that is less. Default otherwise: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PreStopSleepSeconds *int32 `json:"preStopSleepSeconds,omitempty"`

	// replicas is the number of pods. Unset: the workload starts with 1 pod, and
	// the operator does not change the number afterwards, so that an autoscaler of
	// the workload can set it. The scale subresource, which an autoscaler of this
	// object reads, works only while replicas is set; `kubectl scale` on this
	// object sets it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// ports are the ports that the container listens on. A Service with the same
	// name routes to them. Without ports no Service is created.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +listMapKey=protocol
	// +kubebuilder:validation:MaxItems=16
	Ports []Port `json:"ports,omitempty"`

	// service configures the Service.
	// +optional
	Service ServiceSettings `json:"service,omitzero"`

	// update configures rolling updates of the pods.
	// +optional
	Update UpdateSettings `json:"update,omitzero"`

	// disruption configures the PodDisruptionBudget.
	// +optional
	Disruption DisruptionSettings `json:"disruption,omitzero"`

	PodSettings `json:",inline"`
}

// AutoscalingSettings configure a HorizontalPodAutoscaler.
//
// +kubebuilder:validation:XValidation:rule="has(self.targetCPUUtilization) || has(self.targetMemoryUtilization)",message="autoscaling requires a target; set targetCPUUtilization or targetMemoryUtilization, for example 70"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas must not exceed maxReplicas; lower minReplicas or raise maxReplicas"
type AutoscalingSettings struct {
	// minReplicas is the minimum number of pods. Default 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas int32 `json:"minReplicas,omitempty"`

	// maxReplicas is the maximum number of pods, for example 5.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`

	// targetCPUUtilization is the target average CPU utilization in percent of
	// resources.requests.cpu, for example 70.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilization int32 `json:"targetCPUUtilization,omitempty"`

	// targetMemoryUtilization is the target average memory utilization in percent
	// of resources.requests.memory, for example 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilization int32 `json:"targetMemoryUtilization,omitempty"`
}

// DisruptionBudget specifies whether a PodDisruptionBudget is created.
// +kubebuilder:validation:Enum=Auto;None
type DisruptionBudget string

// Values of DisruptionBudget.
const (
	DisruptionAuto DisruptionBudget = "Auto"
	DisruptionNone DisruptionBudget = "None"
)

// DisruptionSettings configure the PodDisruptionBudget.
type DisruptionSettings struct {
	// budget specifies whether a PodDisruptionBudget is created. Auto creates one
	// when replicas or autoscaling.minReplicas is more than 1. None never creates
	// one. Default Auto.
	// +optional
	Budget DisruptionBudget `json:"budget,omitempty"`

	// maxUnavailable is the number or percentage of pods that can be unavailable
	// during evictions, for example 1 or 25%. Pods that are not ready can always
	// be evicted. Default 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 10000 : self.matches('^(100|[1-9][0-9]?)%$')",message="maxUnavailable must be a number of pods from 1 to 10000 without quotes, or a percentage from 1% to 100%; with 0, nodes could never be drained"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// Port is a port of the container and of its Service.
type Port struct {
	// name is the name of the port, for example http. It is required if there is
	// more than one port.
	// +optional
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$') && self.matches('[a-z]')",message="a port name must consist of a-z, 0-9 and single - between them, and contain at least one letter, for example http or grpc-web"
	Name string `json:"name,omitempty"`

	// port is the port of the Service, and of the container if targetPort is
	// unset.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort is the port that the container listens on. Default: port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`

	// protocol is TCP, UDP or SCTP. Default TCP.
	// +optional
	// +kubebuilder:default=TCP
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`
}

// ServiceType is the type of a Service.
// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer;Headless
type ServiceType string

// Types of Services.
const (
	ServiceClusterIP    ServiceType = "ClusterIP"
	ServiceNodePort     ServiceType = "NodePort"
	ServiceLoadBalancer ServiceType = "LoadBalancer"
	ServiceHeadless     ServiceType = "Headless"
)

// AnnotationValue is the value of an annotation.
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// ServiceSettings configure a Service.
type ServiceSettings struct {
	// type is the type of the Service: ClusterIP is reachable inside the cluster,
	// NodePort on every node, LoadBalancer from outside the cluster. Headless
	// resolves to the addresses of the pods. Default ClusterIP.
	// +optional
	Type ServiceType `json:"type,omitempty"`

	// annotations are annotations of the Service, for example for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('apps.holdfast.dev/'))",message="annotations with the prefix apps.holdfast.dev/ are reserved for Holdfast; remove them"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// sessionAffinity is the session affinity of the Service. With ClientIP, all
	// connections of a client go to the same pod. Default None.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
}

// UpdateSettings configure rolling updates of the pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !(self.maxSurge == 0 || self.maxSurge == '0%') || (has(self.maxUnavailable) && !(self.maxUnavailable == 0 || self.maxUnavailable == '0%'))",message="maxSurge and maxUnavailable (default 0) cannot both be 0; raise one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.minReadySeconds) || self.minReadySeconds < (has(self.progressDeadlineSeconds) ? self.progressDeadlineSeconds : 600)",fieldPath=".minReadySeconds",message="minReadySeconds must be less than progressDeadlineSeconds (default 600); lower minReadySeconds or raise progressDeadlineSeconds"
type UpdateSettings struct {
	// maxSurge is the number or percentage of pods that can exist in addition to
	// replicas during an update, for example 1 or 25%. Default 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="maxSurge must be a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`

	// maxUnavailable is the number or percentage of pods that can be unavailable
	// during an update, for example 1 or 25%. Default 0: a pod is terminated only
	// after a new pod is ready.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 10000 : self.matches('^(100|[1-9]?[0-9])%$')",message="maxUnavailable must be a number of pods from 0 to 10000 without quotes, or a percentage from 0% to 100%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// minReadySeconds is the time in seconds that a new pod must be ready before
	// it is available. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is the time in seconds without progress after which
	// an update is reported as stalled. The update continues nevertheless. Default
	// 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`
}
