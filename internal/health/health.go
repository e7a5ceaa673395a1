// Package health judges one object of the cluster: is it well, on its way, broken, held
// or not known. It reads nothing but the object it is given.
//
// Safety rule: green has to be earned. What is missing, of a kind without rules here or
// not yet seen by its own controller is never Healthy.
package health

import (
	"fmt"
	"reflect"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Status is how well something is.
type Status string

// From worst to best: Degraded, Unknown, Progressing, Suspended, Healthy.
const (
	// Healthy is as declared.
	Healthy Status = "Healthy"
	// Progressing is on its way, and nothing says that it will not arrive.
	Progressing Status = "Progressing"
	// Degraded does not run as declared and will not by waiting alone.
	Degraded Status = "Degraded"
	// Suspended is held by somebody who wants it so.
	Suspended Status = "Suspended"
	// Unknown could not be judged.
	Unknown Status = "Unknown"
)

// Result is a status and why.
type Result struct {
	Status Status
	// Reason is one of the reasons of conditions in the API.
	Reason string
	// Message is one sentence that names the object. It is the same for as long as the
	// state is the same: no counters, no times.
	Message string
}

// EvaluateAtGeneration judges like Of an object whose pods are what we asked for since this generation: a
// later one that its controller has not seen yet, an annotation of somebody else for
// example, takes nothing back. 0 means that this is not known.
func EvaluateAtGeneration(obj runtime.Object, generation int64) Result {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		if o != nil && generation > 0 && o.Status.ObservedGeneration >= generation {
			observed := *o
			observed.Generation = min(o.Generation, o.Status.ObservedGeneration)
			return Evaluate(&observed)
		}
	case *appsv1.StatefulSet:
		if o != nil && generation > 0 && o.Status.ObservedGeneration >= generation {
			observed := *o
			observed.Generation = min(o.Generation, o.Status.ObservedGeneration)
			return Evaluate(&observed)
		}
	}
	return Evaluate(obj)
}

// AffectsPods says whether the difference between two states of an object concerns its pods.
func AffectsPods(before, after runtime.Object) bool {
	if before == after {
		return false
	}
	switch a := before.(type) {
	case *appsv1.Deployment:
		if b, ok := after.(*appsv1.Deployment); ok {
			return desiredReplicas(a) != desiredReplicas(b) || a.Spec.MinReadySeconds != b.Spec.MinReadySeconds ||
				!equality.Semantic.DeepEqual(a.Spec.Template, b.Spec.Template)
		}
	case *appsv1.StatefulSet:
		if b, ok := after.(*appsv1.StatefulSet); ok {
			return statefulSetReplicas(a) != statefulSetReplicas(b) || a.Spec.MinReadySeconds != b.Spec.MinReadySeconds ||
				!equality.Semantic.DeepEqual(a.Spec.Template, b.Spec.Template)
		}
	}
	return true
}

// Evaluate judges an object. What applications are made of has rules of its own here; what is only
// a setting for others is well when it is there. Kinds that nobody knows here are judged by
// what they say themselves, see [EvaluateCustom]; everything else, and no object at all, is Unknown.
func Evaluate(obj runtime.Object) Result {
	if isNil(obj) {
		return unknown("There is no object, so nothing is known about its health")
	}
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return deploymentHealth(o)
	case *appsv1.StatefulSet:
		return statefulSetHealth(o)
	case *appsv1.DaemonSet:
		return daemonSetHealth(o)
	case *batchv1.Job:
		return jobHealth(o)
	case *batchv1.CronJob:
		return cronJobHealth(o)
	case *corev1.Service:
		return serviceHealth(o)
	case *corev1.Pod:
		return podHealth(o)
	case *appsv1.ReplicaSet:
		return replicaSetHealth(o)
	case *corev1.PersistentVolumeClaim:
		return claimHealth(o)
	case *corev1.PersistentVolume:
		return volumeHealth(o)
	case *corev1.ConfigMap, *autoscalingv2.HorizontalPodAutoscaler, *policyv1.PodDisruptionBudget, *networkingv1.Ingress, *discoveryv1.EndpointSlice:
		return staticHealth(o.(metav1.Object), obj)
	case *unstructured.Unstructured:
		if o.GetKind() == "HTTPRoute" {
			return routeHealth(o)
		}
		if v, ok := staticKindHealth(o); ok {
			return v
		}
		return EvaluateCustom(o, nil)
	}
	if v, ok := staticKindHealth(obj); ok {
		return v
	}
	return unknown(describe(obj) + " is of a kind whose health cannot be judged")
}

// claimHealth asks whether there is a volume.
func claimHealth(c *corev1.PersistentVolumeClaim) Result {
	name := objectName("PersistentVolumeClaim", c)
	switch {
	case c.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case c.Status.Phase == corev1.ClaimBound:
		return healthy(name + " has its volume")
	case c.Status.Phase == corev1.ClaimLost:
		return degraded(appsapi.ReasonComponentDegraded, name+" has lost its volume")
	}
	return progressing(name + " waits for its volume")
}

// volumeHealth asks whether there is storage behind it. One whose claim is gone is kept because
// somebody wants its data to be.
func volumeHealth(v *corev1.PersistentVolume) Result {
	name := objectName("PersistentVolume", v)
	switch {
	case v.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case v.Status.Phase == corev1.VolumeBound || v.Status.Phase == corev1.VolumeAvailable:
		return healthy(name + " is there")
	case v.Status.Phase == corev1.VolumeFailed:
		return degraded(appsapi.ReasonComponentDegraded, name+" has failed")
	case v.Status.Phase == corev1.VolumeReleased:
		return suspended(name + " is kept, and its claim is gone")
	}
	return progressing(name + " waits for its storage")
}

// replicaSetHealth asks whether all pods of one revision are there.
func replicaSetHealth(r *appsv1.ReplicaSet) Result {
	name, want := objectName("ReplicaSet", r), int32(1)
	if r.Spec.Replicas != nil {
		want = *r.Spec.Replicas
	}
	if r.Status.ObservedGeneration >= r.Generation && r.Status.Replicas == want && r.Status.AvailableReplicas == want {
		return healthy(name + " runs as declared")
	}
	return progressing(name + " waits for its pods to become ready")
}

// Worst returns the verdict that counts for the whole, the first one among equals. A
// whole without parts is Unknown: what should have members and has none is never healthy.
func Worst(results ...Result) Result {
	if len(results) == 0 {
		return unknown("Nothing was found where something should be")
	}
	worst := results[0]
	for _, v := range results[1:] {
		if severity(v.Status) > severity(worst.Status) {
			worst = v
		}
	}
	if worst.Status == "" {
		// A verdict that nobody filled in weighs as Unknown; it has to say so, too.
		worst.Status, worst.Reason = Unknown, appsapi.ReasonInternalError
	}
	return worst
}

func severity(s Status) int {
	switch s {
	case Healthy:
		return 0
	case Suspended:
		return 1
	case Progressing:
		return 2
	case Degraded:
		return 4
	}
	return 3
}

func serviceHealth(s *corev1.Service) Result {
	name := objectName("Service", s)
	if s.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 {
		return progressing(name + " waits for an address from the load balancer")
	}
	return healthy(name + " is set up")
}

// staticHealth judges what has done its part by being there. An Ingress does not tell: many
// controllers never write its status.
func staticHealth(o metav1.Object, obj runtime.Object) Result {
	if o.GetDeletionTimestamp() != nil {
		return progressing(describe(obj) + " is being deleted")
	}
	return healthy(describe(obj) + " is set up")
}

func podHealth(p *corev1.Pod) Result {
	name := objectName("Pod", p)
	if p.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	switch p.Status.Phase {
	case corev1.PodFailed:
		return degraded(appsapi.ReasonComponentDegraded, name+" has failed")
	case corev1.PodSucceeded:
		return healthy(name + " has done its work")
	case corev1.PodUnknown:
		// Before the conditions: they are what the node said before it fell silent.
		return unknown(name + " is on a node that does not report")
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return healthy(name + " is ready")
		}
	}
	return progressing(name + " is not ready yet")
}

func healthy(message string) Result {
	return Result{Status: Healthy, Reason: appsapi.ReasonReconciled, Message: message}
}

func progressing(message string) Result {
	return Result{Status: Progressing, Reason: appsapi.ReasonProgressing, Message: message}
}

func degraded(reason, message string) Result {
	return Result{Status: Degraded, Reason: reason, Message: message}
}

func suspended(message string) Result {
	return Result{Status: Suspended, Reason: appsapi.ReasonSuspended, Message: message}
}

func unknown(message string) Result {
	return Result{Status: Unknown, Reason: appsapi.ReasonInternalError, Message: message}
}

// isNil also finds the nil pointer inside an interface, which a caller gets by handing
// over the result of a lookup that found nothing.
func isNil(obj runtime.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// describe names an object of any kind. Typed objects usually do not carry their kind.
func describe(obj runtime.Object) string {
	kind := obj.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		kind = reflect.Indirect(reflect.ValueOf(obj)).Type().Name()
	}
	if o, ok := obj.(metav1.Object); ok {
		return objectName(kind, o)
	}
	return kind
}

func objectName(kind string, o metav1.Object) string {
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", kind, o.GetName())
	}
	return fmt.Sprintf("%s %s/%s", kind, o.GetNamespace(), o.GetName())
}
