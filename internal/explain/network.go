package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-dev/holdfast/internal/health"
)

const (
	// addressGrace is how long a load balancer may take without a word.
	addressGrace = 2 * time.Minute
	// endpointGrace lets pods become ready and the Service notice.
	endpointGrace = time.Minute
)

// others examines objects of kinds that are not known here, by what they say themselves.
func (e *examiner) others() {
	for _, o := range e.scene.Others {
		v := health.Custom(o, e.scene.Rules)
		if v.Status != health.Degraded {
			continue
		}
		kind := strings.ToLower(o.GetKind())
		if group := o.GroupVersionKind().Group; group != "" {
			kind += "." + group
		}
		e.addTo(objectOf(o.GetKind(), o), o.GetName(), Cause{
			Code: NotReady, Path: "status", Since: lastChange(o), Sentence: v.Message,
			Fix: fmt.Sprintf("Look at what it says: kubectl describe %s -n %s %s", kind, o.GetNamespace(), o.GetName()),
		})
	}
}

// network examines how the component is reached. What its pods say goes before: without
// pods that are well nothing else works either.
func (e *examiner) network() {
	for _, s := range e.scene.Services {
		if s.DeletionTimestamp != nil {
			continue
		}
		e.balancer(s)
		if len(s.Spec.Selector) > 0 && len(e.scene.Pods) > 0 && e.scene.wanted() > 0 {
			e.selects(s)
		}
	}
	for _, i := range e.scene.Ingresses {
		e.ingress(i)
	}
	for _, r := range e.scene.Routes {
		if v := health.Of(r); v.Status == health.Degraded {
			e.addTo(objectOf("HTTPRoute", r), r.GetName(), Cause{
				Code: RouteNotAccepted, Path: "status.parents", Since: lastChange(r), Sentence: v.Message,
				Fix: fmt.Sprintf("Correct spec.expose of the application, or let the Gateway take the route: kubectl describe httproute -n %s %s", r.GetNamespace(), r.GetName()),
			})
		}
	}
}

func (e *examiner) balancer(s *corev1.Service) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return
	}
	o := objectOf("Service", s)
	ev, failed := e.event(o, []string{"SyncLoadBalancerFailed", "UnAvailableLoadBalancer"})
	if end := s.CreationTimestamp.Add(addressGrace); !failed && e.now.Before(end) {
		e.look(end)
		return
	}
	c := Cause{
		Code: LBPending, Path: "status.loadBalancer", Since: s.CreationTimestamp.Time,
		Sentence: fmt.Sprintf("Service %s has no address from a load balancer yet", s.Name),
		Fix:      fmt.Sprintf("See whether the cluster has a controller for load balancers: kubectl describe service -n %s %s", s.Namespace, s.Name),
	}
	if failed {
		c.Evidence = []string{ev.String()}
	} else {
		e.ask(o)
	}
	e.addTo(o, s.Name, c)
}

// selects examines whom a Service leads to. Pods that are kept without their labels cannot
// be matched.
func (e *examiner) selects(s *corev1.Service) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	var matched []*corev1.Pod
	labelled := false
	for _, p := range e.scene.Pods {
		if p == nil || isOver(p) {
			continue
		}
		labelled = labelled || len(p.Labels) > len(keptLabels)
		if selector.Matches(labels.Set(p.Labels)) {
			matched = append(matched, p)
		}
	}
	o := objectOf("Service", s)
	switch {
	case len(matched) == 0 && labelled:
		e.addTo(o, s.Name, Cause{
			Code: SelectorMismatch, Path: "spec.selector", Value: selector.String(), Since: lastChange(s),
			Sentence: fmt.Sprintf("Service %s selects %s, but no pod has these labels", s.Name, short(selector.String())),
			Fix:      "Correct the selector of the Service, or the labels of the pods.",
		})
	case len(matched) > 0:
		e.ports(o, s, matched)
		e.endpoints(o, s, matched)
	}
}

// ports finds named ports that no container has. A number needs no declaration.
func (e *examiner) ports(o Object, s *corev1.Service, pods []*corev1.Pod) {
	for i, p := range s.Spec.Ports {
		if p.TargetPort.Type != intstr.String || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return hasPort(pod, p.TargetPort.StrVal) }) {
			continue
		}
		if len(pods[0].Spec.Containers) == 0 {
			return // kept without its spec
		}
		e.addTo(o, s.Name, Cause{
			Code: PortMismatch, Path: fmt.Sprintf("spec.ports[%d].targetPort", i), Value: p.TargetPort.StrVal, Since: lastChange(s),
			Sentence: fmt.Sprintf("Port %d of Service %s leads to port %q, which no container has", p.Port, s.Name, short(p.TargetPort.StrVal)),
			Fix:      "Correct the target of the port, or name a port of the container so.",
		})
	}
}

func hasPort(pod *corev1.Pod, port string) bool {
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
	}
	return slices.ContainsFunc(pod.Spec.Containers, has) || slices.ContainsFunc(pod.Spec.InitContainers, has)
}

// endpoints is a Service that nobody answers for, although its pods have been there for a
// while and do not say why.
func (e *examiner) endpoints(o Object, s *corev1.Service, pods []*corev1.Pod) {
	all, ready := 0, 0
	for _, slice := range e.scene.Slices {
		if slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, ep := range slice.Endpoints {
			all++
			if ep.Conditions.Ready == nil || *ep.Conditions.Ready {
				ready++
			}
		}
	}
	if all == 0 || ready > 0 || s.Spec.PublishNotReadyAddresses {
		return
	}
	if end := lastMove(pods).Add(endpointGrace); e.now.Before(end) {
		e.look(end)
		return
	}
	e.addTo(o, s.Name, Cause{
		Code: NoReadyEndpoints, Path: "EndpointSlice endpoints[*].conditions.ready", Since: since(pods[0], corev1.PodReady),
		Sentence: fmt.Sprintf("Service %s has pods, but none of them is ready: nobody answers", s.Name),
		Fix:      "See why the pods are not ready: " + lookUp(pods[0]),
		Evidence: evidence(fmt.Sprintf("endpoints: %d, ready: 0", all)),
	})
}

// lastMove is when a pod last came, began to go, or became ready or not.
func lastMove(pods []*corev1.Pod) time.Time {
	var last time.Time
	note := func(t *metav1.Time) {
		if t != nil && t.After(last) {
			last = t.Time
		}
	}
	for _, p := range pods {
		note(&p.CreationTimestamp)
		note(p.DeletionTimestamp)
		if c := condition(p, corev1.PodReady); c != nil {
			note(&c.LastTransitionTime)
		}
	}
	return last
}

// ingress finds references of an Ingress that lead nowhere.
func (e *examiner) ingress(i *networkingv1.Ingress) {
	o := objectOf("Ingress", i)
	broken := func(path, kind, name string) {
		e.addTo(o, kind+name, Cause{
			Code: IngressBroken, Path: path, Value: name, Since: lastChange(i),
			Sentence: fmt.Sprintf("Ingress %s refers to %s %q, which does not exist", i.Name, kind, short(name)),
			Fix:      fmt.Sprintf("Create the %s, or correct spec.expose of the application.", kind),
		})
	}
	if c := i.Spec.IngressClassName; c != nil && e.scene.whole("IngressClass") && named(e.scene.IngressClasses, *c) == nil {
		broken("spec.ingressClassName", "IngressClass", *c)
	}
	for n, tls := range i.Spec.TLS {
		if slices.Contains(e.scene.Absent, Ref{"Secret", tls.SecretName}) {
			broken(fmt.Sprintf("spec.tls[%d].secretName", n), "Secret", tls.SecretName)
		}
	}
	if !e.scene.whole("Service") {
		return
	}
	for _, service := range backends(i) {
		if named(e.scene.Services, service) == nil {
			broken("spec.rules", "Service", service)
		}
	}
}

// backends are the Services that an Ingress leads to.
func backends(i *networkingv1.Ingress) []string {
	var names []string
	note := func(b *networkingv1.IngressBackend) {
		if b != nil && b.Service != nil && !slices.Contains(names, b.Service.Name) {
			names = append(names, b.Service.Name)
		}
	}
	note(i.Spec.DefaultBackend)
	for _, r := range i.Spec.Rules {
		if r.HTTP == nil {
			continue
		}
		for n := range r.HTTP.Paths {
			note(&r.HTTP.Paths[n].Backend)
		}
	}
	return names
}

// anchor is how a heading is linked to.
func anchor(c Code) string { return strings.ToLower(string(c)) }
