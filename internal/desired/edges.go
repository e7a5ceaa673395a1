package desired

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Edges are the components that the pods of a workload need: those they were made to
// depend on, and those that pods on their way out may still use.
func Edges(live metav1.Object) []string {
	return append(dependsOn(live), dependedOn(live)...)
}

func dependsOn(live metav1.Object) []string {
	return split(live.GetAnnotations()[appsapi.AnnotationDependsOn])
}

func dependedOn(live metav1.Object) []string {
	return split(live.GetAnnotations()[appsapi.AnnotationDependedOn])
}

func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// former are the components that the workload shall no longer depend on and may still
// need: its pods were made with them, and not all of those pods are gone. Some may be in
// the spec and leave it meanwhile.
//
//	applied with the edge ──► applied without it ──► no old pod left
//	depends-on: x             depended-on: x         (none: x may go)
func former(edges []string, live *appsv1.Deployment) []string {
	if live == nil {
		return nil
	}
	oldPods := live.Status.ObservedGeneration < live.Generation || live.Status.Replicas != live.Status.UpdatedReplicas
	if slices.Equal(dependsOn(live), edges) && !oldPods {
		return nil
	}
	var out []string
	for _, e := range Edges(live) {
		if !slices.Contains(edges, e) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}
