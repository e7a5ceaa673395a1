package collect

import (
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// singleObject is an object that is no application. Its pods and their evidence are read as those of an
// application with one component.
type singleObject struct {
	collector
	object *unstructured.Unstructured
	// typed is the object as its Go type. It is nil for custom resources.
	typed runtime.Object
	rules *health.Rules
}

func newSingleObject(c client.Client, obj *unstructured.Unstructured, rules *health.Rules) *singleObject {
	s := &singleObject{object: obj, rules: rules}
	keys := appkind.KeysOf(obj)
	s.collector = collector{
		client: c, requestsLeft: MaxRequests, requested: map[string]bool{}, missingRefs: map[string][]explain.Ref{},
		owner:      desired.Owner{Namespace: obj.GetNamespace(), Name: obj.GetName(), Keys: keys},
		components: []desired.Component{{Name: obj.GetName(), WorkloadID: obj.GetLabels()[keys.Workload]}},
	}
	if typed, err := c.Scheme().New(obj.GroupVersionKind()); err == nil && !rules.Has(obj.GroupVersionKind().GroupKind()) &&
		runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, typed) == nil {
		s.typed, s.objects = typed, []runtime.Object{typed}
	}
	return s
}

// evaluate reads the pods of the object, then evidence until the cause is found.
func (s *singleObject) evaluate(ctx context.Context, now time.Time) (Result, error) {
	if selector := podSelector(s.typed); selector != nil {
		s.requestsLeft--
		if err := s.list(ctx, &corev1.PodList{}, client.InNamespace(s.object.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return Result{}, err
		}
		s.objects = slices.DeleteFunc(s.objects, s.isControlledByAnother)
	}
	v := s.view(now)
	for range maxRounds {
		if !s.readEvidence(ctx, v) {
			break
		}
		v = s.view(now)
	}
	l := Result{View: v, Objects: s.objects}
	if s.typed == nil && !v.Ready {
		s.addEvents(ctx, l.Causes)
	}
	slices.Sort(s.unread)
	l.Unread = slices.Compact(s.unread)
	return l, nil
}

// podSelector returns the selector of the pods of an object, or nil if it has none.
func podSelector(obj runtime.Object) labels.Selector {
	var selector *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		selector = o.Spec.Selector
	case *appsv1.StatefulSet:
		selector = o.Spec.Selector
	case *appsv1.DaemonSet:
		selector = o.Spec.Selector
	case *appsv1.ReplicaSet:
		selector = o.Spec.Selector
	case *batchv1.Job:
		selector = o.Spec.Selector
	case *corev1.Service:
		if len(o.Spec.Selector) > 0 {
			return labels.SelectorFromSet(o.Spec.Selector)
		}
	}
	if selector == nil {
		return nil
	}
	out, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // the API server does not accept such selectors
	}
	return out
}

// isControlledByAnother reports whether a pod matches the selector but belongs to another workload. The
// pods of a Deployment belong to its ReplicaSets.
func (s *singleObject) isControlledByAnother(obj runtime.Object) bool {
	pod, ok := obj.(*corev1.Pod)
	if !ok || obj == s.typed {
		return false
	}
	switch s.typed.(type) {
	case *appsv1.Deployment, *corev1.Service:
		return false
	}
	return !metav1.IsControlledBy(pod, s.object)
}

// view evaluates the object. A suspended object is as declared, so it counts as ready.
func (s *singleObject) view(now time.Time) inspect.View {
	diagnosis := explain.Explain(s.snapshot(), now)
	v := inspect.View{
		Kind: s.object.GetKind(), Namespace: s.object.GetNamespace(), Name: s.object.GetName(),
		Deleting: s.object.GetDeletionTimestamp() != nil,
		Causes:   diagnosis.Causes, EventsNeeded: diagnosis.EventsNeeded, RecheckAt: diagnosis.RecheckAt,
	}
	result := s.health()
	v.Health, v.Reason, v.Message = result.Status, result.Reason, result.Message
	i := slices.IndexFunc(v.Causes, func(c explain.Cause) bool { return c.Severity == explain.Error })
	v.Ready = v.Health == health.Healthy && (i < 0 || s.hasReadyPod()) || v.Health == health.Suspended && i < 0
	if i >= 0 && v.Health != health.Unknown {
		v.Health, v.Message = health.Degraded, v.Causes[i].Message
		if !v.Ready {
			v.Since = v.Causes[i].Since
		}
	}
	return v
}

// health evaluates the status of the object. Some built-in kinds, such as Node, have no rules of their own.
func (s *singleObject) health() health.Result {
	if s.rules.Has(s.object.GroupVersionKind().GroupKind()) {
		return health.EvaluateCustom(s.object, s.rules)
	}
	if result := health.Evaluate(s.typed); result.Status != health.Unknown {
		return result
	}
	return health.Evaluate(s.object)
}

// hasReadyPod reports whether a pod of the object is ready. A Service without ready pods is set up, but
// serves nothing.
func (s *singleObject) hasReadyPod() bool {
	return slices.ContainsFunc(s.objects, func(obj runtime.Object) bool {
		pod, ok := obj.(*corev1.Pod)
		return ok && isReady(pod) && pod.DeletionTimestamp == nil
	})
}

func (s *singleObject) snapshot() explain.Snapshot {
	out := explain.Snapshot{
		Unmanaged: true, HealthRules: s.rules, CompleteKinds: s.listedKinds, MissingRefs: s.missingRefs[s.object.GetName()],
	}
	for _, obj := range s.objects {
		out.Add(obj)
	}
	switch s.typed.(type) {
	case nil:
		out.CustomResources = []*unstructured.Unstructured{s.object}
	case *appsv1.ReplicaSet, *corev1.Pod, *corev1.Service: // Add sets the other workloads
		out.Workload = s.typed
	}
	return out
}

// addEvents adds the events of a custom resource to its causes as evidence.
func (s *singleObject) addEvents(ctx context.Context, causes []explain.Cause) {
	var list corev1.EventList
	err := s.client.List(ctx, &list, client.InNamespace(s.object.GetNamespace()), client.Limit(maxEventsPerObject),
		client.MatchingFields{"involvedObject.kind": s.object.GetKind(), "involvedObject.name": s.object.GetName()})
	if err != nil {
		s.recordUnread("Event", err)
		return
	}
	for i := range list.Items {
		for n := range causes {
			causes[n].Evidence = append(causes[n].Evidence, explain.NewEvent(&list.Items[i]).String())
		}
	}
}
