// Package stateful contains the RBAC markers for components of type stateful or database. Pass its
// path to controller-gen.
package stateful

// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",namespace=holdfast-system,resources=secrets,resourceNames=holdfast-content-key;holdfast-database-ca,verbs=get
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch;delete
