package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Snapshot contains the known objects of one component. A missing object only counts as
// nonexistent if its kind is in CompleteKinds.
type Snapshot struct {
	// Keys are the label keys of the operator that manages the component; nil if none does.
	Keys *appsapi.Keys
	// Workload is the owner of the pods. A pod without an owner is its own workload. For a Service without
	// a known workload, it is the Service.
	Workload runtime.Object
	Pods     []*corev1.Pod
	// Claims are the claims of the pods.
	Claims         []*corev1.PersistentVolumeClaim
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
	Ingresses      []*networkingv1.Ingress
	HTTPRoutes     []*unstructured.Unstructured
	Autoscalers    []*autoscalingv2.HorizontalPodAutoscaler

	// CustomResources are objects of other kinds; HealthRules evaluate them.
	CustomResources []*unstructured.Unstructured
	HealthRules     *health.Rules

	// Objects that the component shares with others.
	Nodes          []*corev1.Node
	Volumes        []*corev1.PersistentVolume
	StorageClasses []*storagev1.StorageClass
	IngressClasses []*networkingv1.IngressClass

	// MissingRefs are referenced ConfigMaps and Secrets that do not exist.
	MissingRefs []Ref
	// Events are about the objects above. They expire after an hour, so no result depends on
	// their presence.
	Events []Event
	// CompleteKinds are the kinds of which the snapshot contains all objects.
	CompleteKinds []string
	// SpecPath is the path of the component's fields in the spec of its application; empty means spec.
	SpecPath string
	// DefaultReadinessProbe is set if the readiness probe follows from the ports, so the spec has no probe to correct.
	DefaultReadinessProbe bool
	// Unmanaged is set for objects that Holdfast does not manage: fixes name Kubernetes fields
	// instead of fields of an application.
	Unmanaged bool
}

// Ref is a reference to a ConfigMap or Secret.
type Ref struct{ Kind, Name string }

// Event is an event about an object.
type Event struct {
	Object ObjectRef
	// FieldPath is the part of the object, for example spec.containers{app}.
	FieldPath       string
	Reason, Message string
	Count           int
	LastSeen        time.Time
}

// NewEvent converts a Kubernetes event.
func NewEvent(e *corev1.Event) Event {
	o := e.InvolvedObject
	out := Event{
		Object:    ObjectRef{Kind: o.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID},
		FieldPath: o.FieldPath, Reason: e.Reason, Message: plaintext.Line(e.Message, maxText), Count: max(int(e.Count), 1), LastSeen: e.LastTimestamp.Time,
	}
	if e.Series != nil {
		out.Count, out.LastSeen = int(e.Series.Count), e.Series.LastObservedTime.Time
	}
	if out.LastSeen.IsZero() {
		out.LastSeen = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	return out
}

// String formats an event as evidence.
func (e Event) String() string {
	times := ""
	if e.Count > 1 {
		times = fmt.Sprintf(" x%d", e.Count)
	}
	return plaintext.Line(fmt.Sprintf("event %s%s: %s", e.Reason, times, e.Message), maxEvidence)
}

// latestEvent returns the newest event about an object with one of the reasons and with all of the
// words in its message.
func (e *explainer) latestEvent(o ObjectRef, reasons []string, words ...string) (Event, bool) {
	var found Event
	for _, ev := range e.eventsBySubject[eventSubject{o.Kind, o.Name}] {
		if o.UID != "" && ev.Object.UID != "" && o.UID != ev.Object.UID {
			continue
		}
		if !slices.Contains(reasons, ev.Reason) || ev.LastSeen.Before(found.LastSeen) {
			continue
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(ev.Message, w) }) {
			found = ev
		}
	}
	return found, found.Reason != ""
}

// isComplete reports whether the snapshot contains all objects of a kind.
func (s *Snapshot) isComplete(kind string) bool { return slices.Contains(s.CompleteKinds, kind) }

// desiredPods returns the desired number of pods; 0 for jobs, which count their own.
func (s *Snapshot) desiredPods() int {
	valueOrOne := func(n *int32) int {
		if n == nil {
			return 1
		}
		return int(*n)
	}
	switch w := s.Workload.(type) {
	case *appsv1.Deployment:
		return valueOrOne(w.Spec.Replicas)
	case *appsv1.StatefulSet:
		return valueOrOne(w.Spec.Replicas)
	case *appsv1.ReplicaSet:
		return valueOrOne(w.Spec.Replicas)
	case *appsv1.DaemonSet:
		return int(w.Status.DesiredNumberScheduled)
	case *corev1.Pod:
		return 1
	}
	return 0
}

func findByName[T metav1.Object](all []T, name string) (none T) {
	for _, o := range all {
		if o.GetName() == name {
			return o
		}
	}
	return none
}

// lazyIndexByName returns a lookup function that builds its index on the first call. The first object of
// a name wins.
func lazyIndexByName[T metav1.Object](all []T) func(name string) T {
	var index map[string]T
	return func(name string) T {
		if index == nil {
			index = make(map[string]T, len(all))
			for _, o := range slices.Backward(all) {
				index[o.GetName()] = o
			}
		}
		return index[name]
	}
}

// newObjectRef returns a reference to an object. Typed objects often have no kind set.
func newObjectRef(kind string, o metav1.Object) ObjectRef {
	out := ObjectRef{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	if u, ok := o.(*unstructured.Unstructured); ok {
		out.Group = u.GroupVersionKind().Group
	}
	return out
}

// String names an object within a sentence.
func (o ObjectRef) String() string { return o.Kind + " " + o.Name }

// Add adds an object to its field and reports whether its kind is supported.
func (s *Snapshot) Add(obj runtime.Object) bool {
	switch o := obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob:
		s.Workload = obj
	case *corev1.Pod:
		s.Pods = append(s.Pods, o)
	case *corev1.PersistentVolumeClaim:
		s.Claims = append(s.Claims, o)
	case *corev1.Service:
		s.Services = append(s.Services, o)
	case *discoveryv1.EndpointSlice:
		s.EndpointSlices = append(s.EndpointSlices, o)
	case *networkingv1.Ingress:
		s.Ingresses = append(s.Ingresses, o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		s.Autoscalers = append(s.Autoscalers, o)
	case *corev1.Node:
		s.Nodes = append(s.Nodes, o)
	case *corev1.PersistentVolume:
		s.Volumes = append(s.Volumes, o)
	case *storagev1.StorageClass:
		s.StorageClasses = append(s.StorageClasses, o)
	case *networkingv1.IngressClass:
		s.IngressClasses = append(s.IngressClasses, o)
	case *corev1.Event:
		s.Events = append(s.Events, NewEvent(o))
	case *unstructured.Unstructured:
		if o.GetKind() == "HTTPRoute" {
			s.HTTPRoutes = append(s.HTTPRoutes, o)
			return true
		}
		s.CustomResources = append(s.CustomResources, o)
	default:
		return false
	}
	return true
}
