package v1alpha1

import corev1 "k8s.io/api/core/v1"

// ContainerSpec is the container, the same for every type of component.
type ContainerSpec struct {
	// image to run, for example nginx:1.27 or
	// registry.example.com/shop/web@sha256:...
	// +required
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-zA-Z0-9.-]+(:[0-9]+)?/|[[][0-9a-fA-F:]+[]](:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@[A-Za-z0-9+._-]+:[0-9a-fA-F]+)?$')",message="say which image to run: a name in lower case and a tag or digest, without spaces and https://, for example nginx:1.27 or registry.example.com/shop/web:1"
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
