package appservice_test

import (
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func init() {
	stories["zero replicas"] = func(w *world) {
		w.create(`{image: "shop/web:1", replicas: 0}`)
		w.becomesReady()
		w.Expect(w.app().Status.ReplicasReady).To(Equal("0/0"))
		w.settles()
	}
	stories["scale"] = scale
	stories["the live count is kept"] = liveCount
	stories["ports go and come"] = portsGoAndCome
	stories["suspend and resume"] = suspend
	stories["service types"] = serviceTypes
	stories["session affinity"] = func(w *world) {
		w.create(usual + "\nservice: {sessionAffinity: ClientIP}")
		w.becomesReady()
		for _, affinity := range []corev1.ServiceAffinity{corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP, ""} {
			w.change(func(s *appsapi.AppServiceSpec) { s.Service.SessionAffinity = affinity })
			w.becomesReady()
		}
		w.Expect(w.service().Spec.SessionAffinity).To(Equal(corev1.ServiceAffinityNone))
		w.settles()
	}
	stories["a child is annotated"] = annotated
	stories["what is unset goes"] = whatIsUnsetGoes
}

// change edits the spec of the AppService.
func (w *world) change(change func(*appsapi.AppServiceSpec)) {
	w.Helper()
	edit(w, &appsapi.AppService{ObjectMeta: w.meta()}, func(a *appsapi.AppService) { change(&a.Spec) })
}

// scale changes the count in the spec, and as `kubectl scale` and an autoscaler do.
func scale(w *world) {
	w.create(usual)
	w.becomesReady()
	w.change(func(s *appsapi.AppServiceSpec) { s.Replicas = new(int32(3)) })
	w.becomesReady()
	w.Expect(w.app().Status.ReplicasReady).To(Equal("3/3"))

	w.Expect(w.SubResource("scale").Update(w.Context(), w.app(), client.WithSubResourceBody(&autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: w.name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1}}))).To(Succeed())
	w.becomesReady()
	w.Expect(*w.deployment().Spec.Replicas).To(BeEquivalentTo(1))
	var now autoscalingv1.Scale
	w.Expect(w.SubResource("scale").Get(w.Context(), w.app(), &now)).To(Succeed())
	w.Expect(now.Status.Replicas).To(BeEquivalentTo(1))
	w.Expect(now.Status.Selector).To(Equal("app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web"))
	w.Expect(w.deployment().Generation).To(BeEquivalentTo(3), "one write for each count")
	w.settles()
}

// liveCount leaves the count to others whenever the spec does not say one, and never lets
// it fall in between.
func liveCount(w *world) {
	counts := w.watches()
	w.create(`{image: "shop/web:1"}`)
	w.becomesReady()
	byHand := func(n int32) {
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
		w.hasPods(n)
		w.settles()
	}
	byHand(3)
	w.change(func(s *appsapi.AppServiceSpec) { s.Replicas = new(int32(2)) })
	w.hasPods(2)
	w.change(func(s *appsapi.AppServiceSpec) { s.Replicas = nil })
	w.becomesReady()
	w.hasPods(2)
	byHand(4)
	w.change(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.becomesReady()
	w.hasPods(4)
	w.FallsSilent(w.name)
	var seen []int64
	for _, e := range w.sees(counts).History(deployments, w.NS+"/web") {
		n := e.Object.Object["spec"].(map[string]any)["replicas"].(int64)
		if len(seen) == 0 || seen[len(seen)-1] != n {
			seen = append(seen, n)
		}
	}
	w.Expect(seen).To(Equal([]int64{1, 3, 2, 4}))
	w.settles()
}

// hasPods waits until so many are ready, and the status says so: it follows, and until it has, the
// operator is not at rest.
func (w *world) hasPods(n int32) {
	w.Helper()
	w.Eventually(func() int32 { return w.deployment().Status.ReadyReplicas }, "60s", "50ms").Should(Equal(n))
	w.Eventually(func() string { return w.app().Status.ReplicasReady }, "60s", "50ms").Should(Equal(fmt.Sprintf("%d/%d", n, n)))
}

// portsGoAndCome takes the Service away and brings it back.
func portsGoAndCome(w *world) {
	w.create(usual)
	w.becomesReady()
	ports := w.app().Spec.Ports
	w.FallsSilent(w.name)
	calls := w.Calls(func() {
		w.change(func(s *appsapi.AppServiceSpec) { s.Ports = nil })
		w.Eventually(w.service, "60s").Should(BeNil())
		w.becomesReady()
		w.FallsSilent(w.name)
	})
	w.Expect(w.app().Status.Endpoints).To(BeEmpty())
	w.Expect(calls.Of("services").Writes()).To(HaveLen(1))
	w.Expect(w.events()).To(ContainElement("ComponentPruned"))
	w.settles()
	w.change(func(s *appsapi.AppServiceSpec) { s.Ports = ports })
	w.becomesReady()
	w.Expect(w.service().Spec.Ports).To(HaveLen(1))
	w.Expect(w.app().Status.Endpoints).To(HaveLen(1))
	w.settles()

	// One that its owner wants to keep stays, and comes back under our care.
	uid := w.service().UID
	edit(w, w.service(), func(s *corev1.Service) { s.Annotations["apps.holdfast.dev/prune"] = "disabled" })
	w.change(func(s *appsapi.AppServiceSpec) { s.Ports = nil })
	w.settles()
	w.Expect(w.service().UID).To(Equal(uid))
	w.change(func(s *appsapi.AppServiceSpec) { s.Ports = ports })
	w.settles()
}

// suspend keeps our hands off: not one write to a child, whatever happens.
func suspend(w *world) {
	w.create(usual)
	w.becomesReady()
	w.FallsSilent(w.name)
	calls := w.Calls(func() {
		w.change(func(s *appsapi.AppServiceSpec) { s.Suspend = true })
		w.Eventually(w.condition("Ready"), "60s").Should(Equal("True/Suspended: Runs on as it is; while suspended nothing is repaired or updated"))
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		w.hasPods(3)
		w.Expect(w.Delete(w.Context(), w.service())).To(Succeed())
		w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix("False/Suspended"))
		w.change(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
		w.Eventually(w.condition("Ready"), "60s").Should(Equal("False/Suspended: Changes of the spec wait until it is no longer suspended"))
		w.Expect(w.condition("Applied")()).To(HavePrefix("False/Suspended"))
		w.Expect(w.condition("Reconciling")()).To(Equal("none"))
		time.Sleep(time.Second) // nothing must happen
	})
	w.Expect(len(calls.Of("deployments.apps", "services"))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.service()).To(BeNil())
	w.Expect(*w.deployment().Spec.Replicas).To(BeEquivalentTo(3))
	w.change(func(s *appsapi.AppServiceSpec) { s.Suspend = false })
	w.becomesReady()
	w.Expect(w.deployment().Spec.Template.Spec.Containers[0].Image).To(Equal("shop/web:2"))
	w.hasPods(2)
	w.settles()
}

// serviceTypes changes how the Service is reached; its address stays.
func serviceTypes(w *world) {
	w.create(usual)
	w.becomesReady()
	address := w.service().Spec.ClusterIP
	for _, kind := range []appsapi.ServiceType{"NodePort", "LoadBalancer", "ClusterIP", "LoadBalancer", "NodePort", ""} {
		w.change(func(s *appsapi.AppServiceSpec) { s.Service.Type = kind })
		if kind == "LoadBalancer" {
			w.Eventually(w.condition("Ready"), "60s").Should(Equal(
				fmt.Sprintf("False/Progressing: Service %s/web waits for an address from the load balancer", w.NS)))
			// What an administrator adds there is not legal on another type.
			edit(w, w.service(), func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/24"} })
			s := w.service()
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			w.Expect(w.Status().Update(w.Context(), s)).To(Succeed())
		}
		w.becomesReady()
		s := w.service()
		if kind == "" {
			kind = "ClusterIP"
		}
		w.Expect(string(s.Spec.Type)).To(Equal(string(kind)))
		w.Expect(s.Spec.ClusterIP).To(Equal(address))
	}
	w.settles()
}

// whatIsUnsetGoes sets everything and then nothing: the end is the same as if it had
// never been set.
func whatIsUnsetGoes(w *world) {
	fresh, changed := w.called("fresh"), w.called("changed")
	const little = `{image: "shop/web:1", replicas: 0, ports: [{name: http, port: 80}]}`
	fresh.create(little)
	fresh.becomesReady()
	changed.create(everything + "\nserviceAccountName: web")
	changed.isApplied()
	spec := fresh.app().Spec
	changed.change(func(s *appsapi.AppServiceSpec) { *s = spec })
	changed.becomesReady()
	for i, child := range changed.children() {
		w.Expect(normal(changed, child)).To(Equal(normal(fresh, fresh.children()[i])))
	}
	changed.settles()
}

// annotated annotates the Deployment as people and tools do. Kubernetes counts that as a
// new generation, which its controller has to see: no reason for us to write to a child,
// and no pod is replaced.
func annotated(w *world) {
	w.create(usual)
	w.becomesReady()
	w.FallsSilent(w.name)
	const times = 5
	calls := w.Calls(func() {
		for i := range times {
			edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Annotations["example.com/note"] = fmt.Sprint(i) })
			w.becomesReady()
		}
		w.FallsSilent(w.name)
	})
	w.Expect(accepted(calls)).To(BeZero(), "%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev"))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.replicaSets()).To(HaveLen(1))
	w.settles()
}
