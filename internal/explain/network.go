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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/holdfast-dev/holdfast/internal/health"
)

const (
	// loadBalancerGrace is how long a load balancer can take before it is reported.
	loadBalancerGrace = 2 * time.Minute
	// endpointGrace gives pods time to become ready and to appear in the EndpointSlices.
	endpointGrace = time.Minute
)

// checkCustomResources checks custom resources by their own status.
func (e *explainer) checkCustomResources() {
	for _, o := range e.snapshot.CustomResources {
		v := health.EvaluateCustom(o, e.snapshot.HealthRules)
		if v.Status != health.Degraded {
			continue
		}
		kind := strings.ToLower(o.GetKind())
		if group := o.GroupVersionKind().Group; group != "" {
			kind += "." + group
		}
		e.addCause(newObjectRef(o.GetKind(), o), o.GetName(), Cause{
			Code: NotReady, Path: "status", Since: lastSpecChange(o), Message: v.Message,
			Fix: fmt.Sprintf("Check the status and events of the object: kubectl describe %s -n %s %s", kind, o.GetNamespace(), o.GetName()),
		})
	}
}

// checkNetwork checks Services, Ingresses and routes. It runs only if the pods have no errors: without
// ready pods, network problems are consequences.
func (e *explainer) checkNetwork() {
	for _, s := range e.snapshot.Services {
		if s.DeletionTimestamp != nil {
			continue
		}
		e.checkLoadBalancer(s)
		isSubject := e.snapshot.Workload == runtime.Object(s)
		if len(s.Spec.Selector) > 0 && (isSubject || len(e.snapshot.Pods) > 0 && e.snapshot.desiredPods() > 0) {
			e.checkSelector(s, isSubject && e.snapshot.isComplete("Pod"))
		}
	}
	for _, i := range e.snapshot.Ingresses {
		e.checkIngress(i)
	}
	for _, r := range e.snapshot.HTTPRoutes {
		if v := health.Evaluate(r); v.Status == health.Degraded {
			e.addCause(newObjectRef("HTTPRoute", r), r.GetName(), Cause{
				Code: RouteNotAccepted, Path: "status.parents", Since: lastSpecChange(r), Message: v.Message,
				Fix: fmt.Sprintf("Correct spec.expose of the application, or allow the route in the listeners of the Gateway; "+
					"for details: kubectl describe httproute -n %s %s", r.GetNamespace(), r.GetName()),
			})
		}
	}
}

func (e *explainer) checkLoadBalancer(s *corev1.Service) {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || len(s.Status.LoadBalancer.Ingress) > 0 {
		return
	}
	o := newObjectRef("Service", s)
	ev, failed := e.latestEvent(o, []string{"SyncLoadBalancerFailed", "UnAvailableLoadBalancer"})
	if end := s.CreationTimestamp.Add(loadBalancerGrace); !failed && e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	c := Cause{
		Code: LBPending, Path: "status.loadBalancer", Since: s.CreationTimestamp.Time,
		Message: fmt.Sprintf("Service %s has no load balancer address yet", s.Name),
		Fix:     fmt.Sprintf("Check that the cluster has a load balancer controller; for details: kubectl describe service -n %s %s", s.Namespace, s.Name),
	}
	if failed {
		c.Evidence = []string{ev.String()}
	} else {
		e.needEvents(o)
	}
	e.addCause(o, s.Name, c)
}

// checkSelector checks the pods that a Service selects. Projected pods lack most labels, so a mismatch
// with them means nothing, unless the snapshot has all pods with these labels.
func (e *explainer) checkSelector(s *corev1.Service, complete bool) {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	var matched []*corev1.Pod
	labeled := false
	for _, p := range e.snapshot.Pods {
		if p == nil || isInactive(p) {
			continue
		}
		labeled = labeled || len(p.Labels) > projectedLabels
		if selector.Matches(labels.Set(p.Labels)) {
			matched = append(matched, p)
		}
	}
	o := newObjectRef("Service", s)
	switch {
	case len(matched) == 0 && (labeled || complete):
		e.addCause(o, s.Name, Cause{
			Code: SelectorMismatch, Path: "spec.selector", Value: selector.String(), Since: lastSpecChange(s),
			Message: fmt.Sprintf("Service %s selects %s, but no pod has these labels", s.Name, abbreviate(selector.String())),
			Fix:     "Correct the selector of the Service, or the labels of the pods.",
		})
	case len(matched) > 0:
		e.checkPorts(o, s, matched)
		e.checkEndpoints(o, s, matched)
	}
}

// checkPorts finds named ports that no container has. A number needs no declaration.
func (e *explainer) checkPorts(o ObjectRef, s *corev1.Service, pods []*corev1.Pod) {
	for i, p := range s.Spec.Ports {
		if p.TargetPort.Type != intstr.String || slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return hasPort(pod, p.TargetPort.StrVal) }) {
			continue
		}
		if len(pods[0].Spec.Containers) == 0 {
			return // a projected pod without its spec
		}
		e.addCause(o, s.Name, Cause{
			Code: PortMismatch, Path: fmt.Sprintf("spec.ports[%d].targetPort", i), Value: p.TargetPort.StrVal, Since: lastSpecChange(s),
			Message: fmt.Sprintf("Port %d of Service %s has targetPort %q, which no container declares", p.Port, s.Name,
				abbreviate(p.TargetPort.StrVal)),
			Fix: "Correct targetPort of the Service, or name a container port accordingly.",
		})
	}
}

func hasPort(pod *corev1.Pod, port string) bool {
	has := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == port })
	}
	return slices.ContainsFunc(pod.Spec.Containers, has) || slices.ContainsFunc(pod.Spec.InitContainers, has)
}

// checkEndpoints reports a Service without ready endpoints if its pods do not explain it.
func (e *explainer) checkEndpoints(o ObjectRef, s *corev1.Service, pods []*corev1.Pod) {
	all, ready := 0, 0
	for _, slice := range e.snapshot.EndpointSlices {
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
	if end := lastTransition(pods).Add(endpointGrace); e.now.Before(end) {
		e.scheduleRecheck(end)
		return
	}
	e.addCause(o, s.Name, Cause{
		Code: NoReadyEndpoints, Path: "EndpointSlice endpoints[*].conditions.ready", Since: falseSince(pods[0], corev1.PodReady),
		Message:  fmt.Sprintf("Service %s has no ready endpoints: none of its pods is ready", s.Name),
		Fix:      "Check why the pods are not ready: " + describePodCommand(pods[0]),
		Evidence: evidence(fmt.Sprintf("endpoints: %d, ready: 0", all)),
	})
}

// lastTransition returns when a pod was last created or deleted, or its readiness changed.
func lastTransition(pods []*corev1.Pod) time.Time {
	var last time.Time
	note := func(t *metav1.Time) {
		if t != nil && t.After(last) {
			last = t.Time
		}
	}
	for _, p := range pods {
		note(&p.CreationTimestamp)
		note(p.DeletionTimestamp)
		if c := podCondition(p, corev1.PodReady); c != nil {
			note(&c.LastTransitionTime)
		}
	}
	return last
}

// checkIngress finds references of an Ingress to objects that do not exist.
func (e *explainer) checkIngress(i *networkingv1.Ingress) {
	o := newObjectRef("Ingress", i)
	addMissing := func(path, kind, name string) {
		e.addCause(o, kind+name, Cause{
			Code: IngressBroken, Path: path, Value: name, Since: lastSpecChange(i),
			Message: fmt.Sprintf("Ingress %s refers to %s %q, which does not exist", i.Name, kind, abbreviate(name)),
			Fix:     fmt.Sprintf("Create the %s, or correct spec.expose of the application.", kind),
		})
	}
	if c := i.Spec.IngressClassName; c != nil && e.snapshot.isComplete("IngressClass") && findByName(e.snapshot.IngressClasses, *c) == nil {
		addMissing("spec.ingressClassName", "IngressClass", *c)
	}
	for n, tls := range i.Spec.TLS {
		if slices.Contains(e.snapshot.MissingRefs, Ref{"Secret", tls.SecretName}) {
			addMissing(fmt.Sprintf("spec.tls[%d].secretName", n), "Secret", tls.SecretName)
		}
	}
	if !e.snapshot.isComplete("Service") {
		return
	}
	for _, service := range ingressBackends(i) {
		if findByName(e.snapshot.Services, service) == nil {
			addMissing("spec.rules", "Service", service)
		}
	}
}

// ingressBackends returns the backend Services of an Ingress.
func ingressBackends(i *networkingv1.Ingress) []string {
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

// anchor returns the link anchor of the heading of a cause.
func anchor(c Code) string { return strings.ToLower(string(c)) }
