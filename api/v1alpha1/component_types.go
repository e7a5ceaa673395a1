package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Component is one part of an application. The engine translates every kind
// into a list of components.
//
// +kubebuilder:validation:XValidation:rule="[has(self.service), has(self.stateful), has(self.job), has(self.database)].exists_one(set, set)",message="a component must set exactly one of service, stateful, job and database"
// +kubebuilder:validation:XValidation:rule="has(self.service) == has(oldSelf.service) && has(self.stateful) == has(oldSelf.stateful) && has(self.job) == has(oldSelf.job) && has(self.database) == has(oldSelf.database)",message="the type of a component is immutable; add a component with another name, and set renamedFrom if it replaces this one"
// +kubebuilder:validation:XValidation:rule="!has(self.dependsOn) || !(self.name in self.dependsOn)",fieldPath=".dependsOn",message="a component cannot depend on itself; remove its name from dependsOn"
// +kubebuilder:validation:XValidation:rule="!has(self.bindings) || !self.bindings.exists(b, b.component == self.name)",fieldPath=".bindings",message="a component cannot be bound to itself; remove it from bindings"
// +kubebuilder:validation:XValidation:rule="!has(self.bindings) || self.bindings.all(b, self.bindings.exists_one(o, (has(o.envPrefix) ? o.envPrefix : o.component.upperAscii().replace('-', '_')) == (has(b.envPrefix) ? b.envPrefix : b.component.upperAscii().replace('-', '_'))))",fieldPath=".bindings",message="two bindings set the same environment variables; set a different envPrefix for one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.renamedFrom) || self.renamedFrom != self.name",fieldPath=".renamedFrom",message="renamedFrom must be the previous name of the component, not its current name"
// +kubebuilder:validation:XValidation:rule="!has(self.stateful) && !has(self.database) || has(self.resourceName) == has(oldSelf.resourceName) && (!has(self.resourceName) || self.resourceName == oldSelf.resourceName)",fieldPath=".resourceName",message="resourceName of a component with volumes is immutable; restore the previous value"
// +kubebuilder:validation:XValidation:rule="!has(self.stateful) && !has(self.database) || !has(self.resourceName) || self.resourceName.size() <= 52",fieldPath=".resourceName",message="resourceName of a component with volumes must have at most 52 characters, because Kubernetes appends a hash to the name of a StatefulSet"
type Component struct {
	// name is the name of the component, unique within the application.
	// +required
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="a component name must consist of a-z, 0-9 and -, start with a letter and not end with -"
	Name string `json:"name"`

	// resourceName is the name of the objects created for the component. Default:
	// <application>-<component>. After a change, the objects with the old name are
	// deleted once those with the new name are ready. It is immutable for stateful
	// and database components.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="resourceName is used as the name of a Service: it must consist of a-z, 0-9 and -, start with a letter and not end with -"
	ResourceName string `json:"resourceName,omitempty"`

	// renamedFrom is the previous name of this component. The objects of the
	// previous name keep running until this component is ready. A stateful or
	// database component keeps its volumes and pods; only its Service is renamed.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	RenamedFrom string `json:"renamedFrom,omitempty"`

	// dependsOn are the names of the components that must be ready before this
	// component is created and before its pods are replaced.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=40
	DependsOn []string `json:"dependsOn,omitempty"`

	// bindings set environment variables with the addresses of other components. A
	// binding is also a dependency.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +kubebuilder:validation:MaxItems=16
	Bindings []Binding `json:"bindings,omitempty"`

	// service is a long-running service: a Deployment and, if it has ports, a
	// Service.
	// +optional
	Service *ServiceComponent `json:"service,omitempty"`

	// stateful is a service with persistent volumes: a StatefulSet, its
	// PersistentVolumeClaims and, if it has ports, a Service.
	// +optional
	Stateful *StatefulComponent `json:"stateful,omitempty"`

	// database is a MariaDB server with one schema and one account.
	// +optional
	Database *DatabaseComponent `json:"database,omitempty"`

	// job runs to completion, once per change of this spec, or periodically if
	// schedule is set.
	// +optional
	Job *JobComponent `json:"job,omitempty"`
}

// Binding sets environment variables with the address of another component:
// <PREFIX>_HOST is the DNS name of its Service, for example shop-api.shop.svc,
// and <PREFIX>_PORT is its first port. For a database, <PREFIX>_USERNAME,
// _PASSWORD, _DATABASE and _URI are set as well.
type Binding struct {
	// component is the name of the component to connect to.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Component string `json:"component"`

	// envPrefix is the prefix of the environment variables, for example API for
	// API_HOST. Default: the name of the component in upper case, with _ instead
	// of -.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",message="envPrefix is the prefix of environment variables: it must consist of letters, digits and _, and not start with a digit"
	EnvPrefix string `json:"envPrefix,omitempty"`
}

// ApplicationStatus is the part of the status that all kinds have in common.
type ApplicationStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are Ready and Applied, which are always present, and Reconciling
	// and Stalled, which are present while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// causes are the reasons why the application is not ready, most important
	// first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	Causes []Cause `json:"causes,omitempty"`

	// drift are the last corrections of objects that another client changed or
	// deleted, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Drift []DriftCorrection `json:"drift,omitempty"`
}

// DriftCorrection is a correction of an object that another client changed or
// deleted. Further corrections of the same object within a minute increase its
// count.
type DriftCorrection struct {
	// object is the corrected object.
	// +required
	Object ObjectReference `json:"object"`

	// deleted is true if the object had been deleted and was created again.
	// +optional
	Deleted bool `json:"deleted,omitempty"`

	// fields are the corrected fields, at most 5.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	Fields []CorrectedField `json:"fields,omitempty"`

	// managers are the field managers that changed the object, if known, for
	// example kubectl-edit. A deleted field or object has no field manager.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=128
	Managers []string `json:"managers,omitempty"`

	// firstTime is the time of the first correction.
	// +required
	FirstTime metav1.Time `json:"firstTime"`

	// lastTime is the time of the last correction.
	// +required
	LastTime metav1.Time `json:"lastTime"`

	// count is the number of corrections.
	// +required
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count"`
}

// CorrectedField is a field that was corrected. Values that can be secret are
// hidden, and long values are truncated.
type CorrectedField struct {
	// path is the path of the field, for example
	// spec.template.spec.containers[app].image.
	// +required
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`

	// from is the value that another client had set. It is unset if the client had
	// removed the field.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	From string `json:"from,omitempty"`

	// to is the restored value. It is unset if the field was removed.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	To string `json:"to,omitempty"`
}

// Cause is a reason why an application is not ready.
type Cause struct {
	// code identifies the cause, for example ImageNotFound.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Code string `json:"code"`

	// message describes the problem in one sentence.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`

	// object is the object that has the problem.
	// +required
	Object ObjectReference `json:"object"`

	// since is the time when the problem started.
	// +required
	Since metav1.Time `json:"since"`
}

// ObjectReference references an object in the same namespace.
type ObjectReference struct {
	// kind is the kind of the object, for example Pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`

	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ComponentType is the type of a component.
// +kubebuilder:validation:Enum=Service;Stateful;Job;Database
type ComponentType string

// Types of components.
const (
	ComponentService  ComponentType = "Service"
	ComponentStateful ComponentType = "Stateful"
	ComponentJob      ComponentType = "Job"
	ComponentDatabase ComponentType = "Database"
)

// ComponentStatus is the observed state of a component.
type ComponentStatus struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`

	// type is the type of the component.
	// +required
	Type ComponentType `json:"type"`

	// resourceName is the name of the workload: a Deployment, StatefulSet, Job or
	// CronJob.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	ResourceName string `json:"resourceName,omitempty"`

	// health is the state of the component: Healthy, Progressing, Degraded,
	// Suspended, Waiting or Unknown.
	// +required
	// +kubebuilder:validation:Enum=Healthy;Progressing;Degraded;Suspended;Waiting;Unknown
	Health string `json:"health"`

	// reason is the reason for the health in one word, for example ImageNotFound.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message describes the reason in one sentence. It is empty for a healthy
	// component.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// dependsOn are the names of the components that this component depends on. It
	// is set while the component waits for one of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=40
	DependsOn []string `json:"dependsOn,omitempty"`

	// ready is the number of ready pods when the status was last updated.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`

	// desired is the desired number of pods.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Desired int32 `json:"desired"`
}
