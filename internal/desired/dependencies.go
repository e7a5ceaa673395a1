package desired

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// PodDependencies returns the components that the pods of a workload depend on: the dependencies of the current
// pods and those of terminating pods.
func PodDependencies(keys *appsapi.Keys, live metav1.Object) []string {
	return append(dependsOnAnnotation(keys, live), previousDependsOnAnnotation(keys, live)...)
}

func dependsOnAnnotation(keys *appsapi.Keys, live metav1.Object) []string {
	return splitList(live.GetAnnotations()[keys.DependsOn])
}

func previousDependsOnAnnotation(keys *appsapi.Keys, live metav1.Object) []string {
	return splitList(live.GetAnnotations()[keys.PreviousDependsOn])
}

func splitList(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// hasOldPods reports whether pods of a previous template can exist.
func hasOldPods(generation, observed int64, replicas, updated int32) bool {
	return observed < generation || replicas != updated
}

// metaOrNil returns the metadata of a child, or a nil interface. A typed nil pointer would not compare equal to
// nil.
func metaOrNil[T any, P interface {
	*T
	metav1.Object
}](live P) metav1.Object {
	if live == nil {
		return nil
	}
	return live
}

// formerDependencies returns the components that the workload no longer depends on, but that pods of a previous
// template can still need. These components may have been removed from the spec since then.
//
//	applied with dependency x ──► applied without it       ──► no old pod left
//	depends-on: x                 previous-depends-on: x       (none: x can be pruned)
func formerDependencies(keys *appsapi.Keys, deps []string, live metav1.Object, hasOldPods bool) []string {
	if live == nil {
		return nil
	}
	if slices.Equal(dependsOnAnnotation(keys, live), deps) && !hasOldPods {
		return nil
	}
	var out []string
	for _, e := range PodDependencies(keys, live) {
		if !slices.Contains(deps, e) && !slices.Contains(out, e) {
			out = append(out, e)
		}
	}
	slices.Sort(out)
	return out
}

// RenderUsesStatus reports whether the configuration of a child depends on its status: PreviousDependsOn is kept
// until the last old pod is gone.
func RenderUsesStatus(keys *appsapi.Keys, live metav1.Object) bool {
	_, ok := live.GetAnnotations()[keys.PreviousDependsOn]
	return ok
}

// dependencySettleSeconds is the default of update.minReadySeconds for pods without a readiness or startup
// probe that other components depend on: such a pod is ready as soon as its program starts, even if the program
// crashes at once.
const dependencySettleSeconds = 5

// minReadySeconds returns the minReadySeconds of a workload; 0 means unset.
func (rc renderContext) minReadySeconds(c ExpandedComponent, u appsapi.UpdateSettings, template *corev1ac.PodTemplateSpecApplyConfiguration) int32 {
	if u.MinReadySeconds != 0 || hasProbe(template) || !rc.hasDependents(c.Name) {
		return u.MinReadySeconds
	}
	return min(dependencySettleSeconds, cmp.Or(u.ProgressDeadlineSeconds, defaultProgressDeadline)-1)
}

func hasProbe(template *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	return slices.ContainsFunc(template.Spec.Containers, func(c corev1ac.ContainerApplyConfiguration) bool {
		return c.ReadinessProbe != nil || c.StartupProbe != nil
	})
}

// hasDependents reports whether another component depends on a component.
func (rc renderContext) hasDependents(name string) bool {
	return slices.ContainsFunc(rc.components, func(c ExpandedComponent) bool { return slices.Contains(dependencies(c), name) })
}
