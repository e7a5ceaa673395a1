package appservice_test

import (
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func init() {
	stories["quota"] = func(w *world) {
		quota := createForeign(w, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "no-deployments"},
			Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
		})
		// Until the quota is counted everything is refused, in other words.
		w.Eventually(func() corev1.ResourceList { return find(w, quota).Status.Hard }, "60s").ShouldNot(BeEmpty())
		w.create(basicSpec)
		want := "False/ApplyFailed: ResourceQuota no-deployments of namespace " + w.NS + " is used up (count/deployments.apps), so Deployment web cannot be created"
		w.Eventually(w.condition("Applied"), "60s").Should(Equal(want))
		w.Expect(w.condition("Ready")()).To(Equal(want))
		w.Expect(w.service()).NotTo(BeNil(), "the other child is not held up")
		calls := w.OperatorRequests(func() { time.Sleep(quietPeriod) })
		// Twice as long each time, from 20 ms on: ten tries are made in the first 20 s.
		w.Expect(len(calls)).To(BeNumerically("<=", 14), "%s", calls.Count())
		w.Expect(len(calls.Of("appservices.apps.holdfast.dev"))).To(BeZero(), "%s", calls.Count())
		w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ApplyFailed"))
		w.Expect(w.Delete(w.Context(), quota)).To(Succeed())
		w.Touch(w.appAndChildren()...) // it would be tried again at the latest after five minutes
		w.expectSteadyState()
	}
	stories["an admission policy insists"] = mutatingPolicyWins
}

// mutatingPolicyWins tells of a platform that changes what we send: it has the last word, and we do
// not fight it.
func mutatingPolicyWins(w *world) {
	labels := `"/metadata/labels/" + jsonpatch.escapeKey("app.kubernetes.io/part-of")`
	policy := &admissionv1.MutatingAdmissionPolicy{}
	w.decode(`
spec:
  reinvocationPolicy: Never
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+w.NS+`}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: >-
        [JSONPatch{op: "add", path: `+labels+`, value: "platform"},
         JSONPatch{op: "add", path: "/spec/template/spec/enableServiceLinks", value: true}]`, policy)
	policy.Name = w.NS
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: w.NS}, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: w.NS}}
	createForeign(w, policy)
	createForeign(w, binding)
	w.Eventually(func() string { // the API server learns of it in its own time
		d := foreignObjects["Deployment"](w.withName("try"))
		d.SetLabels(map[string]string{"any": "label"})
		w.Expect(w.Create(w.Context(), d, client.DryRunAll)).To(Succeed())
		return d.GetLabels()["app.kubernetes.io/part-of"]
	}, "60s").Should(Equal("platform"))

	calls := w.OperatorRequests(func() {
		w.create(basicSpec)
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(Equal(3), "%s", calls.Count())
	w.Expect(*w.deployment().Spec.Template.Spec.EnableServiceLinks).To(BeTrue())
	w.expectSteadyState()

	// What we hold beside that is still repaired.
	calls = w.OperatorRequests(func() {
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Labels["app.kubernetes.io/name"] = "theirs" })
		w.Eventually(func() string { return w.deployment().Labels["app.kubernetes.io/name"] }, "60s").Should(Equal("service"))
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })
		w.Eventually(func() int32 { return *w.deployment().Spec.Replicas }, "60s").Should(BeEquivalentTo(2))
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(Equal(2), "%s", calls.Count())
	w.expectSteadyState()
}
