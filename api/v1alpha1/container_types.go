package v1alpha1

import corev1 "k8s.io/api/core/v1"

// ContainerSpec configures the container of a component. All types of
// components have these fields.
type ContainerSpec struct {
	// image is the container image, for example nginx:1.27 or
	// registry.example.com/shop/web@sha256:...
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9.-]+(:[0-9]+)?/|[[][0-9a-fA-F:]+[]](:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z0-9+._-]+:[0-9a-fA-F]+)?$')",message="image must be a lowercase image name with an optional tag or digest, without spaces or https://, for example nginx:1.27 or registry.example.com/shop/web:1"
	Image string `json:"image"`

	// imagePullPolicy specifies when the image is pulled. Default: Always for the
	// tag latest or no tag, IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets in the same namespace with the credentials of
	// image registries.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`

	// command overrides the entrypoint of the image, for example [/bin/server].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=32768
	Command []string `json:"command,omitempty"`

	// args are the arguments of the entrypoint, for example [--verbose].
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=32768
	Args []string `json:"args,omitempty"`

	// env are environment variables of the container. Each has a value, or
	// valueFrom a key of a ConfigMap or Secret or a field of the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom are ConfigMaps and Secrets of which every key becomes an environment
	// variable.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are the requests and limits of the container, for example
	// {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// terminationGracePeriodSeconds is the time in seconds that a pod has to
	// terminate before it is killed, including preStopSleepSeconds. Default 30,
	// for stateful components 120.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds *int32 `json:"terminationGracePeriodSeconds,omitempty"`
}

// LocalReference references an object in the same namespace.
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Probes are the probes of a container.
type Probes struct {
	// readiness is the probe that decides whether the pod receives traffic.
	// Default: a TCP connection to the first TCP port.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe must set exactly one of httpGet, tcpSocket, grpc and exec"
	// +kubebuilder:validation:XValidation:rule="!(has(self.httpGet) && has(self.httpGet.host)) && !(has(self.tcpSocket) && has(self.tcpSocket.host))",message="a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod"
	Readiness *corev1.Probe `json:"readiness,omitempty"`

	// liveness is the probe that restarts the container when it fails. Default:
	// none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe must set exactly one of httpGet, tcpSocket, grpc and exec"
	// +kubebuilder:validation:XValidation:rule="!(has(self.httpGet) && has(self.httpGet.host)) && !(has(self.tcpSocket) && has(self.tcpSocket.host))",message="a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod"
	Liveness *corev1.Probe `json:"liveness,omitempty"`

	// startup is the probe that must succeed once before the other probes run.
	// Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="[has(self.httpGet), has(self.tcpSocket), has(self.grpc), has(self.exec)].exists_one(set, set)",message="a probe must set exactly one of httpGet, tcpSocket, grpc and exec"
	// +kubebuilder:validation:XValidation:rule="!(has(self.httpGet) && has(self.httpGet.host)) && !(has(self.tcpSocket) && has(self.tcpSocket.host))",message="a probe must not set host, because the node sends it with its own access to the network; remove host to check the pod"
	Startup *corev1.Probe `json:"startup,omitempty"`
}

// SecurityLevel is the Pod Security Standard that the pods comply with.
// +kubebuilder:validation:Enum=Baseline;Restricted
type SecurityLevel string

// Levels of the Pod Security Standards.
const (
	SecurityBaseline   SecurityLevel = "Baseline"
	SecurityRestricted SecurityLevel = "Restricted"
)

// SecuritySettings are the security settings of pods.
//
// +kubebuilder:validation:XValidation:rule="!has(self.level) || self.level != 'Restricted' || !has(self.runAsUser) || self.runAsUser != 0",fieldPath=".runAsUser",message="level Restricted does not allow user 0 (root); set another runAsUser, or level Baseline"
type SecuritySettings struct {
	// level is the Pod Security Standard that the pods comply with. Baseline sets
	// the seccomp profile RuntimeDefault and disables privilege escalation.
	// Restricted also requires a non-root user and drops all capabilities. Default
	// Baseline.
	// +optional
	Level SecurityLevel `json:"level,omitempty"`

	// runAsUser is the user ID of the container. Default: the user of the image.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`

	// runAsGroup is the group ID of the container. Default: the group of the
	// image.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	RunAsGroup *int64 `json:"runAsGroup,omitempty"`

	// fsGroup is the group ID that owns the volumes. Default: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	FSGroup *int64 `json:"fsGroup,omitempty"`

	// readOnlyRootFilesystem makes the root filesystem of the container read-only.
	// Default false.
	// +optional
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
}
