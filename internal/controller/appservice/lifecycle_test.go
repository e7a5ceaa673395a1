package appservice_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func TestZeroReplicasAreReady(t *testing.T) {
	w := newStory(t)
	w.create(`{image: "shop/web:1", replicas: 0}`)
	w.waitReady()
	w.Expect(w.app().Status.ReplicasReady).To(Equal("0/0"))
	w.expectSteadyState()
}

func TestSessionAffinity(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec + "\nservice: {sessionAffinity: ClientIP}")
	w.waitReady()
	for _, affinity := range []corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP, ""} {
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Service.SessionAffinity = affinity })
		w.waitReady()
	}
	w.Expect(w.service().Spec.SessionAffinity).To(Equal(corev1.ServiceAffinityNone))
	w.expectSteadyState()
}

func (w *world) editSpec(editSpec func(*appsapi.AppServiceSpec)) {
	w.Helper()
	edit(w, &appsapi.AppService{ObjectMeta: w.objectMeta()}, func(a *appsapi.AppService) { editSpec(&a.Spec) })
}

// TestScale changes the replicas in the spec, and as kubectl scale and an autoscaler do.
func TestScale(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Replicas = new(int32(3)) })
	w.waitReady()
	w.Expect(w.app().Status.ReplicasReady).To(Equal("3/3"))

	w.Expect(w.SubResource("scale").Update(w.Context(), w.app(), client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: w.name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}))).To(Succeed())
	w.waitReady()
	w.Expect(*w.deployment().Spec.Replicas).To(BeEquivalentTo(1))
	var now autoscalingv1.Scale
	w.Expect(w.SubResource("scale").Get(w.Context(), w.app(), &now)).To(Succeed())
	w.Expect(now.Status.Replicas).To(BeEquivalentTo(1))
	w.Expect(now.Status.Selector).To(Equal("app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web"))
	w.Expect(w.deployment().Generation).To(BeEquivalentTo(3), "one write for each replica count")
	w.expectSteadyState()
}

// TestLiveReplicasAreKept keeps the live replica count whenever the spec does not set one.
func TestLiveReplicasAreKept(t *testing.T) {
	w := newStory(t)
	counts := w.startWatcher()
	w.create(`{image: "shop/web:1"}`)
	w.waitReady()
	scaleManually := func(n int32) {
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
		w.waitReadyPods(n)
		w.expectSteadyState()
	}
	scaleManually(3)
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Replicas = new(int32(2)) })
	w.waitReadyPods(2)
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Replicas = nil })
	w.waitReady()
	w.waitReadyPods(2)
	scaleManually(4)
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.waitReady()
	w.waitReadyPods(4)
	w.WaitIdle(w.name)
	var seen []int64
	for _, e := range w.waitObserved(counts).History(deployments, w.NS+"/web") {
		n := e.Object.Object["spec"].(map[string]any)["replicas"].(int64)
		if len(seen) == 0 || seen[len(seen)-1] != n {
			seen = append(seen, n)
		}
	}
	w.Expect(seen).To(Equal([]int64{1, 3, 2, 4}))
	w.expectSteadyState()
}

// waitReadyPods waits for the number of ready pods in the Deployment and in the status, after which the operator is
// idle.
func (w *world) waitReadyPods(n int32) {
	w.Helper()
	w.Eventually(func() int32 { return w.deployment().Status.ReadyReplicas }, "60s", "50ms").Should(Equal(n))
	w.Eventually(func() string { return w.app().Status.ReplicasReady }, "60s", "50ms").Should(Equal(fmt.Sprintf("%d/%d", n, n)))
}

// TestRemoveAndRestorePorts deletes and recreates the Service.
func TestRemoveAndRestorePorts(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	ports := w.app().Spec.Ports
	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() {
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Ports = nil })
		w.Eventually(w.service, "60s").Should(BeNil())
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(w.app().Status.Endpoints).To(BeEmpty())
	w.Expect(calls.Of("services").Writes()).To(HaveLen(1))
	w.Expect(w.events()).To(ContainElement("ComponentPruned"))
	w.expectSteadyState()
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Ports = ports })
	w.waitReady()
	w.Expect(w.service().Spec.Ports).To(HaveLen(1))
	w.Expect(w.app().Status.Endpoints).To(HaveLen(1))
	w.expectSteadyState()

	// A Service that its owner keeps stays, and is managed again later.
	uid := w.service().UID
	edit(w, w.service(), func(s *corev1.Service) { s.Annotations["apps.holdfast.dev/prune"] = "disabled" })
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Ports = nil })
	w.expectSteadyState()
	w.Expect(w.service().UID).To(Equal(uid))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Ports = ports })
	w.expectSteadyState()
}

// TestSuspendAndResume checks that nothing is written to children while suspended.
func TestSuspendAndResume(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	calls := w.OperatorRequestsWithin(time.Second, func() {
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Suspend = true })
		w.Eventually(w.condition("Ready"), "60s").Should(Equal("True/Suspended: Suspended: running unchanged; drift is not corrected and updates are not applied"))
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		w.waitReadyPods(3)
		w.Expect(w.Delete(w.Context(), w.service())).To(Succeed())
		w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix("False/Suspended"))
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
		w.Eventually(w.condition("Ready"), "60s").Should(Equal("False/Suspended: Spec changes are pending; resume to apply them"))
		w.Expect(w.condition("Applied")()).To(HavePrefix("False/Suspended"))
		w.Expect(w.condition("Reconciling")()).To(Equal("none"))
	})
	w.Expect(len(calls.Of("deployments.apps", "services"))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.service()).To(BeNil())
	w.Expect(*w.deployment().Spec.Replicas).To(BeEquivalentTo(3))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Suspend = false })
	w.waitReady()
	w.Expect(w.deployment().Spec.Template.Spec.Containers[0].Image).To(Equal("shop/web:2"))
	w.waitReadyPods(2)
	w.expectSteadyState()
}

// TestServiceTypes changes the type of the Service; its cluster IP stays. Load balancer fields set by an administrator
// are invalid for another type: the administrator must remove them, or permit the operator to.
func TestServiceTypes(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	address := w.service().Spec.ClusterIP
	resolveConflict := map[appsapi.ServiceType]func(*corev1.Service){
		"ClusterIP": func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil },
		"NodePort": func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, appsapi.DefaultKeys.TakeOwnership, "true")
		},
	}
	previous := appsapi.ServiceType("")
	for _, kind := range []appsapi.ServiceType{"NodePort", "LoadBalancer", "ClusterIP", "LoadBalancer", "NodePort", ""} {
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Service.Type = kind })
		if previous == "LoadBalancer" {
			w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix(
				fmt.Sprintf("False/FieldConflict: Service %s/web: field spec.loadBalancerSourceRanges is set by field manager ", w.NS)))
			edit(w, w.service(), resolveConflict[kind])
		}
		previous = kind
		if kind == "LoadBalancer" {
			w.Eventually(w.condition("Ready"), "60s").Should(Equal(
				fmt.Sprintf("False/Progressing: Service %s/web waits for a load balancer address", w.NS)))
			edit(w, w.service(), func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
			s := w.service()
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			w.Expect(w.Status().Update(w.Context(), s)).To(Succeed())
		}
		w.waitReady()
		s := w.service()
		if kind == "" {
			kind = "ClusterIP"
		}
		w.Expect(string(s.Spec.Type)).To(Equal(string(kind)))
		w.Expect(s.Spec.LoadBalancerSourceRanges == nil).To(Equal(kind != "LoadBalancer"))
		w.Expect(s.Spec.ClusterIP).To(Equal(address))
	}
	w.expectSteadyState()
}

// TestUnsetFieldsAreRemoved sets all fields and then none: the result is the same as if they had never been set.
func TestUnsetFieldsAreRemoved(t *testing.T) {
	w := newStory(t)
	fresh, changed := w.withName("fresh"), w.withName("changed")
	const minimalSpec = `{image: "shop/web:1", replicas: 0, ports: [{name: http, port: 80}]}`
	fresh.create(minimalSpec)
	fresh.waitReady()
	changed.create(fullSpec + "\nserviceAccountName: web")
	changed.waitApplied()
	spec := fresh.app().Spec
	changed.editSpec(func(s *appsapi.AppServiceSpec) { *s = spec })
	changed.waitReady()
	for i, child := range changed.children() {
		w.Expect(normalize(changed, child)).To(Equal(normalize(fresh, fresh.children()[i])))
	}
	changed.expectSteadyState()
}

// TestForeignAnnotationIsNoChange annotates the Deployment. Kubernetes increases the generation, which the Deployment
// controller must observe. The operator must not write children, and no pod is replaced.
func TestForeignAnnotationIsNoChange(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	const times = 5
	calls := w.OperatorRequests(func() {
		for i := range times {
			edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Annotations["example.com/note"] = fmt.Sprint(i) })
			w.waitReady()
		}
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(BeZero(), "%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev"))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.replicaSets()).To(HaveLen(1))
	w.expectSteadyState()
}
