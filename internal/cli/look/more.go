package look

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

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// need is one more request, and what makes it the same as another.
type need struct {
	key string
	do  func(context.Context) error
}

// more reads what may tell why something is not ready, as far as the number of requests
// allows, and says whether it read anything.
func (l *looker) more(ctx context.Context, v view.View) bool {
	if v.Health == health.Healthy && v.Ready && !l.has(desired.KindIngress) {
		return false
	}
	var group errgroup.Group
	found := false
	for _, n := range l.needs(v) {
		if l.asked[n.key] || l.left <= 0 {
			continue
		}
		l.asked[n.key] = true
		l.left--
		found = true
		group.Go(func() error {
			if err := n.do(ctx); err != nil {
				l.miss(strings.SplitN(n.key, " ", 2)[0], err)
			}
			return nil
		})
	}
	_ = group.Wait() // what cannot be read is missed, and said
	return found
}

// needs are the requests that would tell more, the most telling first.
func (l *looker) needs(v view.View) []need {
	var pods, claims, nodes, rest []need
	for _, obj := range slices.Clone(l.objects) {
		switch o := obj.(type) {
		case *corev1.Pod:
			if isReady(o) || o.DeletionTimestamp != nil || o.Status.Phase == corev1.PodSucceeded {
				continue
			}
			if o.Spec.NodeName != "" {
				nodes = append(nodes, l.get("Node", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Spec.NodeName}}))
			}
			pods = append(pods, l.mounts(o)...)
		case *corev1.PersistentVolumeClaim:
			if o.Status.Phase == corev1.ClaimPending {
				claims = append(claims, l.all("StorageClass", &storagev1.StorageClassList{}))
			}
		case *networkingv1.Ingress:
			rest = append(rest, l.all("IngressClass", &networkingv1.IngressClassList{}))
		case *corev1.Service:
			if v.Health != health.Healthy && len(o.Spec.Selector) > 0 {
				rest = append(rest, l.endpoints(o))
			}
		}
	}
	var events, evidence []need
	for _, o := range v.Ask {
		events = append(events, l.events(o))
	}
	for _, c := range v.Causes {
		if c.Severity == explain.Error && c.Code != explain.DependencyWait && len(evidence) < maxEvidence {
			evidence = append(evidence, l.events(c.Object))
		}
	}
	return slices.Concat(claims, events, pods, nodes, evidence, rest)
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// mounts looks for what a pod that does not start is made of and may not exist.
func (l *looker) mounts(pod *corev1.Pod) []need {
	var out []need
	isNew := !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil || s.LastTerminationState.Terminated != nil
	})
	if !isNew {
		return nil
	}
	workload := pod.Labels[appsapi.LabelWorkload]
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil && !l.known(v.PersistentVolumeClaim.ClaimName):
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName, Labels: map[string]string{appsapi.LabelWorkload: workload}}}
			out = append(out, l.get("PersistentVolumeClaim", claim))
		case v.Secret != nil && (v.Secret.Optional == nil || !*v.Secret.Optional):
			out = append(out, l.exists(workload, explain.Ref{Kind: "Secret", Name: v.Secret.SecretName}))
		case v.ConfigMap != nil && (v.ConfigMap.Optional == nil || !*v.ConfigMap.Optional):
			out = append(out, l.exists(workload, explain.Ref{Kind: "ConfigMap", Name: v.ConfigMap.Name}))
		}
	}
	return out
}

func (l *looker) known(claim string) bool {
	return slices.ContainsFunc(l.objects, func(obj runtime.Object) bool {
		c, ok := obj.(*corev1.PersistentVolumeClaim)
		return ok && c.Name == claim
	})
}

// get reads one object. It keeps the label of the workload that asked for it, so that it is
// found where it is used.
func (l *looker) get(kind string, obj client.Object) need {
	workload := obj.GetLabels()[appsapi.LabelWorkload]
	return need{kind + " " + obj.GetName(), func(ctx context.Context) error {
		if err := l.client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return client.IgnoreNotFound(err)
		}
		if workload != "" && obj.GetLabels()[appsapi.LabelWorkload] == "" {
			labels := map[string]string{appsapi.LabelWorkload: workload}
			for k, v := range obj.GetLabels() {
				labels[k] = v
			}
			obj.SetLabels(labels)
		}
		return l.keep(obj)
	}}
}

func (l *looker) keep(obj client.Object) error {
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

// all reads the objects of a kind of which a cluster has few.
func (l *looker) all(kind string, list client.ObjectList) need {
	return need{kind, func(ctx context.Context) error { return l.list(ctx, list) }}
}

// endpoints reads whom a Service leads to.
func (l *looker) endpoints(s *corev1.Service) need {
	return need{"EndpointSlice " + s.Name, func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		err := l.client.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name})
		for i := range list.Items {
			if err == nil {
				err = l.keep(&list.Items[i])
			}
		}
		return err
	}}
}

// exists asks whether there is a ConfigMap or Secret. Its content is none of our business.
func (l *looker) exists(workload string, ref explain.Ref) need {
	return need{ref.Kind + " " + ref.Name, func(ctx context.Context) error {
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
				l.absent[c.Name] = append(l.absent[c.Name], ref)
			}
		}
		return nil
	}}
}

// maxEvidence is of how many objects that are explained already the events are read, too.
const maxEvidence = 2

// maxEvents is how many events of an object are read: more only repeat themselves.
const maxEvents = 100

// events reads what was said about an object.
func (l *looker) events(o explain.Object) need {
	return need{"Event " + o.Kind + "/" + o.Name, func(ctx context.Context) error {
		list := &corev1.EventList{}
		err := l.client.List(ctx, list, client.InNamespace(o.Namespace), client.Limit(maxEvents), client.MatchingFields{
			"involvedObject.kind": o.Kind, "involvedObject.name": o.Name, "involvedObject.uid": string(o.UID)})
		for i := range list.Items {
			if err == nil {
				err = l.keep(&list.Items[i])
			}
		}
		return err
	}}
}
