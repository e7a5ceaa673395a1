// Package history contains the RBAC markers for kinds with revisions. Pass its path to
// controller-gen.
package history

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
