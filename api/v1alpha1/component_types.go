package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Component is one part of an application. Every kind becomes a list of them.
//
// +kubebuilder:validation:XValidation:rule="[has(self.service), has(self.stateful), has(self.job), has(self.database)].exists_one(set, set)",message="a component is exactly one of service, stateful, job and database"
// +kubebuilder:validation:XValidation:rule="has(self.service) == has(oldSelf.service) && has(self.stateful) == has(oldSelf.stateful) && has(self.job) == has(oldSelf.job) && has(self.database) == has(oldSelf.database)",message="a component cannot become another type under the same name; give the new one another name, and renamedFrom if it replaces this one"
// +kubebuilder:validation:XValidation:rule="!has(self.dependsOn) || !(self.name in self.dependsOn)",fieldPath=".dependsOn",message="a component cannot depend on itself; remove its own name"
// +kubebuilder:validation:XValidation:rule="!has(self.bindings) || !self.bindings.exists(b, b.component == self.name)",fieldPath=".bindings",message="a component cannot be bound to itself; remove its own name"
// +kubebuilder:validation:XValidation:rule="!has(self.bindings) || self.bindings.all(b, self.bindings.exists_one(o, (has(o.envPrefix) ? o.envPrefix : o.component.upperAscii().replace('-', '_')) == (has(b.envPrefix) ? b.envPrefix : b.component.upperAscii().replace('-', '_'))))",fieldPath=".bindings",message="two bindings would set the same variables; give one of them an envPrefix of its own"
// +kubebuilder:validation:XValidation:rule="!has(self.renamedFrom) || self.renamedFrom != self.name",fieldPath=".renamedFrom",message="renamedFrom is the name that this component had before; it cannot be its name now"
// +kubebuilder:validation:XValidation:rule="!has(self.stateful) && !has(self.database) || has(self.resourceName) == has(oldSelf.resourceName) && (!has(self.resourceName) || self.resourceName == oldSelf.resourceName)",fieldPath=".resourceName",message="data is found by the resourceName of its component, so that cannot change; keep it"
// +kubebuilder:validation:XValidation:rule="!has(self.stateful) && !has(self.database) || !has(self.resourceName) || self.resourceName.size() <= 52",fieldPath=".resourceName",message="Kubernetes appends to the name of a StatefulSet: at most 52 characters"
type Component struct {
	// name of the component, unique within the application.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="a component's name is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	Name string `json:"name"`

	// resourceName is the name of the children, if it is not to be
	// <application>-<component>. When it changes, the children of the old name go
	// as soon as those of the new name are ready; of a stateful component it
	// cannot change.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="resourceName becomes the name of a Service: it is made of a-z, 0-9 and -, begins with a letter and does not end with -"
	ResourceName string `json:"resourceName,omitempty"`

	// renamedFrom is the name that this component had before. What runs under the
	// old name keeps running until this component is ready. A stateful component
	// keeps its volumes and its pods; only its Service gets the new name.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	RenamedFrom string `json:"renamedFrom,omitempty"`

	// dependsOn are the components that must be ready before this one is created
	// and before its pods are changed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=40
	DependsOn []string `json:"dependsOn,omitempty"`

	// bindings tell this component where others are reached, in environment
	// variables. A bound component is depended on, too.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=16
	Bindings []Binding `json:"bindings,omitempty"`

	// suspend makes the operator keep its hands off this component: nothing is
	// written, what runs keeps running.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// service is a long-running service: a Deployment and, with ports, a Service.
	// +optional
	Service *ServiceComponent `json:"service,omitempty"`

	// stateful is a service with volumes of its own: a StatefulSet, its claims
	// and, with ports, a Service.
	// +optional
	Stateful *StatefulComponent `json:"stateful,omitempty"`

	// database is a MariaDB with a schema and an account.
	// +optional
	Database *DatabaseComponent `json:"database,omitempty"`

	// job is a program that runs to its end, once for every change of what is said
	// here, or with a schedule again and again.
	// +optional
	Job *JobComponent `json:"job,omitempty"`
}

// Binding tells one component where another is reached: <PREFIX>_HOST is the
// address of its Service, for example shop-api.shop.svc, and <PREFIX>_PORT its
// first port. Of a database there are also <PREFIX>_USERNAME, _PASSWORD,
// _DATABASE and _URI.
type Binding struct {
	// component that is reached.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Component string `json:"component"`

	// envPrefix is what the names of the variables begin with. Default: the name
	// of the component in upper case, with _ instead of -.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="envPrefix becomes part of the name of an environment variable: letters, digits and _, not beginning with a digit"
	EnvPrefix string `json:"envPrefix,omitempty"`

	// Secret says how to get in, where the component is a database.
	Secret string `json:"-"`
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

// ComponentType says what a component is.
// +kubebuilder:validation:Enum=Service;Stateful;Job;Database
type ComponentType string

// What a component is.
const (
	ComponentService  ComponentType = "Service"
	ComponentStateful ComponentType = "Stateful"
	ComponentJob      ComponentType = "Job"
	ComponentDatabase ComponentType = "Database"
)

// ComponentStatus is what was seen last of one component.
type ComponentStatus struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// type of the component.
	// +required
	Type ComponentType `json:"type"`

	// resourceName is the name of the child that runs its pods.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ResourceName string `json:"resourceName,omitempty"`

	// health is Healthy, Progressing, Degraded, Suspended, Waiting or Unknown.
	// +required
	// +kubebuilder:validation:Enum=Healthy;Progressing;Degraded;Suspended;Waiting;Unknown
	Health string `json:"health"`

	// reason is one word that says why.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message is one sentence that says what it is about; a healthy component has
	// none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// ready is how many pods were ready at the last transition.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`

	// desired is how many pods there should be.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`
}
