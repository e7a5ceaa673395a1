package collect

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// request is a request for evidence. Requests with the same key are sent once.
type request struct {
	key string
	run func(context.Context) error
}

// readEvidence reads objects that can explain why something is not ready, within the request limit. It
// reports whether it sent any request.
func (l *collector) readEvidence(ctx context.Context, v inspect.View) bool {
	if v.Health == health.Healthy && v.Ready && !l.hasChildKind(desired.KindIngress) {
		return false
	}
	var group errgroup.Group
	requested := false
	for _, n := range l.evidenceRequests(v) {
		if l.requested[n.key] || l.requestsLeft <= 0 {
			continue
		}
		l.requested[n.key] = true
		l.requestsLeft--
		requested = true
		group.Go(func() error {
			if err := n.run(ctx); err != nil {
				l.recordUnread(strings.SplitN(n.key, " ", 2)[0], err)
			}
			return nil
		})
	}
	_ = group.Wait() // errors are recorded as unread
	return requested
}

// evidenceRequests returns the requests that can explain more, the most useful first.
func (l *collector) evidenceRequests(v inspect.View) []request {
	var pods, claims, nodes, network []request
	for _, obj := range slices.Clone(l.objects) {
		switch o := obj.(type) {
		case *corev1.Pod:
			if isReady(o) || o.DeletionTimestamp != nil || o.Status.Phase == corev1.PodSucceeded {
				continue
			}
			if o.Spec.NodeName != "" {
				nodes = append(nodes, l.getRequest("Node", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Spec.NodeName}}))
			}
			pods = append(pods, l.mountRequests(o)...)
		case *corev1.PersistentVolumeClaim:
			if o.Status.Phase == corev1.ClaimPending {
				claims = append(claims, l.listRequest("StorageClass", &storagev1.StorageClassList{}))
			}
		case *networkingv1.Ingress:
			network = append(network, l.listRequest("IngressClass", &networkingv1.IngressClassList{}))
		case *corev1.Service:
			if v.Health != health.Healthy && len(o.Spec.Selector) > 0 {
				network = append(network, l.endpointsRequest(o))
			}
		}
	}
	var events, evidence []request
	for _, o := range v.EventsNeeded {
		events = append(events, l.eventsRequest(o))
	}
	for _, c := range v.Causes {
		if c.Severity == explain.Error && c.Code != explain.DependencyWait && len(evidence) < maxExplainedObjects {
			evidence = append(evidence, l.eventsRequest(c.Object))
		}
	}
	return slices.Concat(claims, events, pods, nodes, evidence, network)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// mountRequests returns requests for the claims, Secrets and ConfigMaps of a pod that never started: they
// may not exist.
func (l *collector) mountRequests(pod *corev1.Pod) []request {
	var out []request
	neverStarted := !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.LastTerminationState.Terminated != nil
	})
	if !neverStarted {
		return nil
	}
	workload := pod.Labels[l.owner.Keys.Workload]
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil && !l.hasClaim(v.PersistentVolumeClaim.ClaimName):
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName, Labels: map[string]string{l.owner.Keys.Workload: workload}}}
			out = append(out, l.getRequest("PersistentVolumeClaim", claim))
		case v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional):
			out = append(out, l.existsRequest(workload, explain.Ref{Kind: "Secret", Name: v.Secret.SecretName}))
		case v.ConfigMap != nil && (v.ConfigMap.Optional == nil || !*v.ConfigMap.Optional):
			out = append(out, l.existsRequest(workload, explain.Ref{Kind: "ConfigMap", Name: v.ConfigMap.Name}))
		}
	}
	return out
}

func (l *collector) hasClaim(claim string) bool {
	return slices.ContainsFunc(l.objects, func(obj runtime.Object) bool {
		c, ok := obj.(*corev1.PersistentVolumeClaim)
		return ok && c.Name == claim
	})
}

// getRequest reads one object and adds the label of the workload that uses it, so that the object is
// assigned to the workload.
func (l *collector) getRequest(kind string, obj client.Object) request {
	workload := obj.GetLabels()[l.owner.Keys.Workload]
	return request{kind + " " + obj.GetName(), func(ctx context.Context) error {
		if err := l.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return client.IgnoreNotFound(err)
		}
		if workload != "" && obj.GetLabels()[l.owner.Keys.Workload] == "" {
			labels := map[string]string{l.owner.Keys.Workload: workload}
			for k, v := range obj.GetLabels() {
				labels[k] = v
			}
			obj.SetLabels(labels)
		}
		return l.addObject(obj)
	}}
}

func (l *collector) addObject(obj client.Object) error {
	gvk, err := apiutil.GVKForObject(obj, l.client.Scheme())
	if err != nil {
		return err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects = append(l.objects, obj)
	return nil
}

// listRequest reads all objects of a kind. It is for kinds with few objects per cluster.
func (l *collector) listRequest(kind string, list client.ObjectList) request {
	return request{kind, func(ctx context.Context) error { return l.list(ctx, list) }}
}

// endpointsRequest reads the EndpointSlices of a Service.
func (l *collector) endpointsRequest(s *corev1.Service) request {
	return request{"EndpointSlice " + s.Name, func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		err := l.client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
		for i := range list.Items {
			if err == nil {
				err = l.addObject(&list.Items[i])
			}
		}
		return err
	}}
}

// existsRequest checks whether a ConfigMap or Secret exists. It reads metadata only.
func (l *collector) existsRequest(workload string, ref explain.Ref) request {
	return request{ref.Kind + " " + ref.Name, func(ctx context.Context) error {
		m := &metav1.PartialObjectMetadata{}
		m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(ref.Kind))
		err := l.client.Get(ctx, client.ObjectKey{Namespace: l.owner.Namespace, Name: ref.Name}, m)
		if !apierrors.IsNotFound(err) {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range l.components {
			if c.WorkloadID == workload {
				l.missingRefs[c.Name] = append(l.missingRefs[c.Name], ref)
			}
		}
		return nil
	}}
}

// maxExplainedObjects is the number of objects with a known cause whose events are also read.
const maxExplainedObjects = 2

// maxEventsPerObject limits the events that are read per object.
const maxEventsPerObject = 100

// eventsRequest reads the events of an object.
func (l *collector) eventsRequest(o explain.ObjectRef) request {
	return request{"Event " + o.Kind + "/" + o.Name, func(ctx context.Context) error {
		list := &corev1.EventList{}
		err := l.client.List(ctx, list, client.InNamespace(o.Namespace), client.Limit(maxEventsPerObject), client.MatchingFields{
			"involvedObject.kind": o.Kind, "involvedObject.name": o.Name, "involvedObject.uid": string(o.UID)})
		for i := range list.Items {
			if err == nil {
				err = l.addObject(&list.Items[i])
			}
		}
		return err
	}}
}
