package inspect

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// isWorkload reports whether an object is a workload or a pod.
func isWorkload(obj runtime.Object) bool {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet, *appsv1.ReplicaSet, *batchv1.Job, *batchv1.CronJob, *corev1.Pod:
		return true
	}
	return false
}

// labelKey is a label in a namespace; without a key, it stands for all objects of the namespace.
type labelKey struct{ namespace, key, value string }

// labeledObject is an object with the labels that selectors match.
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

// find checks only the objects with the rarest of the required labels.
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

// selectObjects returns the workloads whose pod template a selector matches, which is easier to read than
// a thousand pods. If it matches no workload, for example for an elected leader, it returns the
// matching pods.
func (g *graph) selectObjects(namespace string, required map[string]string, selector labels.Selector) []runtime.Object {
	if selector.Empty() {
		return nil // it selects nothing in a Service and everything in a budget: neither is useful
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
		return nil // the API server rejects such a selector
	}
	return g.selectObjects(namespace, s.MatchLabels, selector)
}
