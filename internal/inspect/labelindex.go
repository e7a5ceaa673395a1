package inspect

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// isWorkload says whether an object runs pods, or is one.
func isWorkload(obj runtime.Object) bool {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *appsv1.ReplicaSet, *batchv1.Job, *batchv1.CronJob, *corev1.Pod:
		return true
	}
	return false
}

// labelKey is one label of a namespace; without a key it stands for everything in it.
type labelKey struct{ namespace, key, value string }

// labeledObject is an object with the labels by which it is selected.
type labeledObject struct {
	labels labels.Set
	object runtime.Object
}

// labelIndex finds objects by labels.
type labelIndex map[labelKey][]labeledObject

func (s labelIndex) add(namespace string, set map[string]string, obj runtime.Object) {
	item := labeledObject{set, obj}
	s[labelKey{namespace: namespace}] = append(s[labelKey{namespace: namespace}], item)
	for key, value := range set {
		at := labelKey{namespace, key, value}
		s[at] = append(s[at], item)
	}
}

// find goes through those that have the rarest of the labels that all must have.
func (s labelIndex) find(namespace string, required map[string]string, selector labels.Selector) []runtime.Object {
	candidates := s[labelKey{namespace: namespace}]
	for key, value := range required {
		if narrower := s[labelKey{namespace, key, value}]; len(narrower) < len(candidates) {
			candidates = narrower
		}
	}
	var out []runtime.Object
	for _, c := range candidates {
		if selector.Matches(c.labels) {
			out = append(out, c.object)
		}
	}
	return out
}

// selectObjects is whom a selector means: the workloads whose pods it means, which a person reads
// better than a thousand pods. Only where it means none of them as a whole, a leader that was
// elected for example, it is the pods themselves.
func (g *graph) selectObjects(namespace string, required map[string]string, selector labels.Selector) []runtime.Object {
	if selector.Empty() {
		return nil // of a Service it means nobody, and of a budget everybody, which tells nothing
	}
	if workloads := g.topWorkloads.find(namespace, required, selector); len(workloads) > 0 {
		return workloads
	}
	if g.allPods == nil {
		g.allPods = &labelIndex{}
		for _, obj := range g.objects {
			if pod, ok := obj.(*corev1.Pod); ok {
				g.allPods.add(pod.Namespace, pod.Labels, pod)
			}
		}
	}
	return g.allPods.find(namespace, required, selector)
}

func (g *graph) selectedByService(s *corev1.Service) []runtime.Object {
	return g.selectObjects(s.Namespace, s.Spec.Selector, labels.SelectorFromSet(s.Spec.Selector))
}

func (g *graph) selectedByLabelSelector(namespace string, s *metav1.LabelSelector) []runtime.Object {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || s == nil {
		return nil // the API server takes no such selector
	}
	return g.selectObjects(namespace, s.MatchLabels, selector)
}
