package explain

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// A Service with one pod has no ready endpoint while the pod restarts, however old the pod is.
func TestNoReadyEndpointsGraceDuringRestart(t *testing.T) {
	now := time.Unix(1e9, 0)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	labels := map[string]string{"app": "db", "a": "1", "b": "2", "c": "3", "d": "4", "e": "5", "f": "6"}
	cases := map[string]struct {
		change func(*corev1.Pod)
		found  bool
	}{
		"not ready for long":   {func(*corev1.Pod) {}, true},
		"pod is terminating":   {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(-30 * time.Second)) }, false},
		"pod was just deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(ago(0)) }, false},
		"just became ready": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Second)}}
		}, false},
		"just became unready": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Second)}}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-0", Labels: labels, CreationTimestamp: ago(time.Hour)}}
			tc.change(pod)
			s := Snapshot{
				Workload: &appsv1.StatefulSet{},
				Pods:     []*corev1.Pod{pod},
				Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "db"}}}},
				EndpointSlices: []*discoveryv1.EndpointSlice{{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: "db"}},
					Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}}},
				}},
			}
			found := slices.ContainsFunc(Explain(s, now).Causes, func(c Cause) bool { return c.Code == NoReadyEndpoints })
			if found != tc.found {
				t.Errorf("found: %t", found)
			}
		})
	}
}

func TestLoadBalancerGracePeriod(t *testing.T) {
	ref := ObjectRef{Kind: "Service", Namespace: "shop", Name: "web", UID: "uid-web"}
	service := func(before time.Duration, events ...Event) Snapshot {
		return Snapshot{Events: events, Services: []*corev1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", CreationTimestamp: ago(before)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
		}}}
	}
	terminating, addressed := service(time.Hour), service(time.Hour)
	terminating.Services[0].DeletionTimestamp = new(ago(time.Second))
	addressed.Services[0].Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	pending := func(since time.Duration, evidence ...string) Cause {
		return Cause{
			Code: LBPending, Object: ref, Path: "status.loadBalancer", Since: testNow.Add(-since),
			Message:  "Service web has no load balancer address yet",
			Fix:      "Check that the cluster has a load balancer controller; for details: kubectl describe service -n shop web",
			Evidence: evidence,
		}
	}
	failed := Event{Object: ref, Reason: "SyncLoadBalancerFailed", Message: "no quota", Count: 3, LastSeen: testNow}
	checkDiagnoses(t, map[string]snapshotCase{
		"within the grace period": {service(time.Minute), Diagnosis{RecheckAt: testNow.Add(time.Minute)}},
		"controller failed": {
			service(time.Minute, failed),
			oneCause(pending(time.Minute, "event SyncLoadBalancerFailed x3: no quota")),
		},
		"after the grace period": {service(time.Hour), Diagnosis{Causes: []Cause{pending(time.Hour)}, EventsNeeded: []ObjectRef{ref}}},
		"Service is deleted":     {terminating, Diagnosis{}},
		"Service has an address": {addressed, Diagnosis{}},
	})
}

func TestEndpointsOfOtherServicesDoNotCount(t *testing.T) {
	slice := func(service string, ready bool) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{Conditions: discoveryv1.EndpointConditions{Ready: new(ready)}}},
		}
	}
	snapshot := func(slices ...*discoveryv1.EndpointSlice) Snapshot {
		return Snapshot{
			Workload: newTestDeployment(), Pods: []*corev1.Pod{pod("web-1", running(podAge))}, EndpointSlices: slices,
			Services: []*corev1.Service{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       corev1.ServiceSpec{Selector: map[string]string{"other": "x"}},
			}},
		}
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"another Service has no ready endpoint": {snapshot(slice("db", false)), Diagnosis{}},
		"another Service has a ready endpoint": {snapshot(slice("db", true), slice("web", false)), oneCause(Cause{
			Code: NoReadyEndpoints, Object: ObjectRef{Kind: "Service", Namespace: "shop", Name: "web"},
			Path: "EndpointSlice endpoints[*].conditions.ready", Since: testNow.Add(-unreadyFor),
			Message:  "Service web has no ready endpoints: none of its pods is ready",
			Fix:      "Check why the pods are not ready: kubectl describe pod -n shop web-1",
			Evidence: []string{"endpoints: 1, ready: 0"},
		})},
	})
}

func TestIngressReferences(t *testing.T) {
	backend := func(name string) networkingv1.IngressBackend {
		return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: name}}
	}
	paths := []networkingv1.HTTPIngressPath{
		{Backend: backend("web")}, {Backend: backend("api")}, {Backend: backend("api")},
		{Backend: networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "static"}}},
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", CreationTimestamp: ago(time.Hour)},
		Spec: networkingv1.IngressSpec{
			IngressClassName: new("nginx"),
			DefaultBackend:   new(backend("fallback")),
			TLS:              []networkingv1.IngressTLS{{SecretName: "here"}, {SecretName: "cert"}},
			Rules: []networkingv1.IngressRule{
				{Host: "plain.example.com"},
				{IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: paths}}},
			},
		},
	}
	broken := func(path, kind, name string) Cause {
		return Cause{
			Code: IngressBroken, Object: ObjectRef{Kind: "Ingress", Namespace: "shop", Name: "web"}, Path: path, Value: name,
			Since:   testNow.Add(-time.Hour),
			Message: "Ingress web refers to " + kind + ` "` + name + `", which does not exist`,
			Fix:     "Create the " + kind + ", or correct spec.expose of the application.",
		}
	}
	snapshot := func(complete []string, missing ...Ref) Snapshot {
		return Snapshot{
			Ingresses: []*networkingv1.Ingress{ingress}, CompleteKinds: complete, MissingRefs: missing,
			IngressClasses: []*networkingv1.IngressClass{{ObjectMeta: metav1.ObjectMeta{Name: "nginx"}}},
			Services: []*corev1.Service{
				{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, {ObjectMeta: metav1.ObjectMeta{Name: "fallback"}},
			},
		}
	}
	noDefault := snapshot([]string{"Service"})
	noDefault.Services = append(noDefault.Services[:1], &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "api"}})
	checkDiagnoses(t, map[string]snapshotCase{
		"Secret does not exist": {
			snapshot(nil, Ref{"Secret", "cert"}),
			oneCause(broken("spec.tls[1].secretName", "Secret", "cert")),
		},
		"ConfigMap of the same name": {snapshot(nil, Ref{"ConfigMap", "cert"}), Diagnosis{}},
		"Service does not exist": {
			snapshot([]string{"Service", "IngressClass"}),
			oneCause(broken("spec.rules", "Service", "api")),
		},
		"default backend does not exist": {noDefault, oneCause(broken("spec.rules", "Service", "fallback"))},
		"Services are not known":         {snapshot([]string{"IngressClass"}), Diagnosis{}},
	})
}

func TestOnlyDegradedCustomResourcesAreCauses(t *testing.T) {
	resource := func(name, status string) *unstructured.Unstructured {
		condition := map[string]any{"type": "Ready", "status": status, "reason": "Broken", "message": "no paint"}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"namespace": "shop", "name": name},
			"status": map[string]any{"conditions": []any{condition}},
		}}
	}
	checkDiagnoses(t, map[string]snapshotCase{"one of two is degraded": {
		Snapshot{CustomResources: []*unstructured.Unstructured{resource("blue", "True"), resource("red", "False")}},
		oneCause(Cause{
			Code: NotReady, Object: ObjectRef{Group: "example.com", Kind: "Widget", Namespace: "shop", Name: "red"}, Path: "status",
			Message: "Widget shop/red reports that it is not ready: Broken",
			Fix:     "Check the status and events of the object: kubectl describe widget.example.com -n shop red",
		}),
	}})
}

// TestServiceWithoutWorkload explains a Service itself, of which all pods are known.
func TestServiceWithoutWorkload(t *testing.T) {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	for name, tc := range map[string]struct {
		complete []string
		want     []Code
	}{
		"all pods are known":     {[]string{"Pod"}, []Code{SelectorMismatch}},
		"pods could not be read": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []Code
			for _, c := range Explain(Snapshot{Workload: service, Services: []*corev1.Service{service}, CompleteKinds: tc.complete, Unmanaged: true}, testNow).Causes {
				got = append(got, c.Code)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
