// Package health evaluates the health of a single object: healthy, progressing, degraded,
// suspended or unknown. It only reads the object that it is given.
//
// Safety rule: an object that is missing, of a kind without rules or not yet observed by its
// controller is never Healthy.
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

// Status is the health of an object.
type Status string

// Health statuses; from worst to best: Degraded, Unknown, Progressing, Suspended, Healthy.
const (
	// Healthy runs as declared.
	Healthy Status = "Healthy"
	// Progressing is not healthy yet, and there is no error.
	Progressing Status = "Progressing"
	// Degraded does not run as declared and needs a fix.
	Degraded Status = "Degraded"
	// Suspended was paused or suspended by a user.
	Suspended Status = "Suspended"
	// Unknown cannot be evaluated.
	Unknown Status = "Unknown"
)

// Result is a health status with its reason.
type Result struct {
	Status Status
	// Reason is one of the reasons of conditions in the API.
	Reason string
	// Message is one sentence that names the object. It contains no counters and no times, so it
	// only changes with the state.
	Message string
}

// EvaluateAtGeneration evaluates an object like [Evaluate], but requires its controller to have observed
// only this generation, the last one that changed the pods. A later generation, for example from an
// annotation of another field manager, does not make the object unhealthy. Generation 0 means unknown.
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

// AffectsPods reports whether the difference between two states of an object affects its pods.
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

// Evaluate evaluates the health of an object. The kinds that applications consist of have their own
// rules; configuration objects are healthy if they exist. Custom resources are evaluated by their
// status, see [EvaluateCustom]. All other kinds, and nil, are Unknown.
func Evaluate(obj runtime.Object) Result {
	if isNil(obj) {
		return unknown("The object does not exist, so its health is unknown")
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
		if gvk := o.GroupVersionKind(); gvk.Kind == "HTTPRoute" && gvk.Group == "gateway.networking.k8s.io" {
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
	return unknown(describe(obj) + " is of a kind without health rules")
}

func claimHealth(c *corev1.PersistentVolumeClaim) Result {
	name := objectName("PersistentVolumeClaim", c)
	switch {
	case c.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case c.Status.Phase == corev1.ClaimBound:
		return healthy(name + " is bound to its volume")
	case c.Status.Phase == corev1.ClaimLost:
		return degraded(appsapi.ReasonComponentDegraded, name+" has lost its volume")
	}
	return progressing(name + " is not bound to a volume yet")
}

// volumeHealth treats a released volume as suspended: its data is retained on purpose.
func volumeHealth(v *corev1.PersistentVolume) Result {
	name := objectName("PersistentVolume", v)
	switch {
	case v.DeletionTimestamp != nil:
		return progressing(name + " is being deleted")
	case v.Status.Phase == corev1.VolumeBound || v.Status.Phase == corev1.VolumeAvailable:
		return healthy(name + " is provisioned")
	case v.Status.Phase == corev1.VolumeFailed:
		return degraded(appsapi.ReasonComponentDegraded, name+" has failed")
	case v.Status.Phase == corev1.VolumeReleased:
		return suspended(name + " is retained: its claim was deleted")
	}
	return progressing(name + " is not provisioned yet")
}

func replicaSetHealth(r *appsv1.ReplicaSet) Result {
	name, want := objectName("ReplicaSet", r), int32(1)
	if r.Spec.Replicas != nil {
		want = *r.Spec.Replicas
	}
	if r.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	if r.Status.ObservedGeneration >= r.Generation && r.Status.Replicas == want && r.Status.AvailableReplicas == want {
		return healthy(name + " runs as declared")
	}
	return progressing(name + " waits for its pods to become ready")
}

// Worst returns the worst result, the first one among equals. Without results, it returns Unknown:
// an application without objects is never healthy.
func Worst(results ...Result) Result {
	if len(results) == 0 {
		return unknown("No objects found, so the health is unknown")
	}
	worst := results[0]
	for _, v := range results[1:] {
		if severity(v.Status) > severity(worst.Status) {
			worst = v
		}
	}
	if worst.Status == "" {
		// An empty result counts as Unknown, so report it as Unknown.
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
		return progressing(name + " waits for a load balancer address")
	}
	return healthy(name + " is set up")
}

// staticHealth evaluates kinds that are healthy if they exist. This includes Ingress, because many
// controllers never write its status.
func staticHealth(o metav1.Object, obj runtime.Object) Result {
	if o.GetDeletionTimestamp() != nil {
		return progressing(describe(obj) + " is being deleted")
	}
	return healthy(describe(obj) + " is set up")
}

// SuspendedMessage is the message of a suspended component that runs, and SuspendedSuffix ends the message of one
// that is not healthy.
const (
	SuspendedMessage = "Suspended: drift is not corrected and updates are not applied"
	SuspendedSuffix  = "; suspended, so drift is not corrected"
)

// Missing is the health of a child that does not exist.
func Missing(kind, name string) Result {
	return progressing(fmt.Sprintf("%s %s does not exist", kind, name))
}

// NotCreated is the health of a component without children because the spec of the application is invalid.
func NotCreated() Result {
	return Result{Status: Progressing, Reason: appsapi.ReasonInvalidSpec, Message: "Not created: the spec is invalid"}
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

// isNil also detects a nil pointer in an interface, which callers pass after a failed lookup.
func isNil(obj runtime.Object) bool {
	if obj == nil {
		return true
	}
	v := reflect.ValueOf(obj)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// describe names an object of any kind. Typed objects usually have no kind set.
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
