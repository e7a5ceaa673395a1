package desired

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// PodDependencies are the components that the pods of a workload need: those they were made to
// depend on, and those that pods on their way out may still use.
func PodDependencies(live metav1.Object) []string {
	return append(dependsOnAnnotation(live), dependedOnAnnotation(live)...)
}

func dependsOnAnnotation(live metav1.Object) []string {
	return splitList(live.GetAnnotations()[appsapi.AnnotationDependsOn])
}

func dependedOnAnnotation(live metav1.Object) []string {
	return splitList(live.GetAnnotations()[appsapi.AnnotationPreviousDependsOn])
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// hasOldPods says whether pods may be left that were made of another template.
func hasOldPods(generation, observed int64, replicas, updated int32) bool {
	return observed < generation || replicas != updated
}

// metaOrNil is the metadata of a child, and nothing at all if there is none: an interface that
// holds nil is not nil.
func metaOrNil[T any, P interface {
	*T
	metav1.Object
}](live P) metav1.Object {
	if live == nil {
		return nil
	}
	return live
}

// formerDependencies are the components that the workload shall no longer depend on and may still
// need: its pods were made with them, and not all of those pods are gone. Some may be in
// the spec and leave it meanwhile.
//
//	applied with the edge ──► applied without it ──► no old pod left
//	depends-on: x             depended-on: x         (none: x may go)
func formerDependencies(deps []string, live metav1.Object, hasOldPods bool) []string {
	if live == nil {
		return nil
	}
	if slices.Equal(dependsOnAnnotation(live), deps) && !hasOldPods {
		return nil
	}
	var out []string
	for _, e := range PodDependencies(live) {
		if !slices.Contains(deps, e) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// RenderUsesStatus says whether what a child should be depends on its status: edges that are no more
// stay on it until its last old pod is gone.
func RenderUsesStatus(live metav1.Object) bool {
	_, ok := live.GetAnnotations()[appsapi.AnnotationPreviousDependsOn]
	return ok
}
