package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestQuotaBlocksOneChildOnly has a quota reject the Deployment: the other child is created, and retries back off.
func TestQuotaBlocksOneChildOnly(t *testing.T) {
	w := newStory(t)
	quota := createForeign(w, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "no-deployments"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/deployments.apps": resource.MustParse("0")}},
	})
	// Until the quota controller has counted usage, requests are rejected with a different message.
	w.Eventually(func() corev1.ResourceList { return find(w, quota).Status.Hard }, "60s").ShouldNot(BeEmpty())
	w.create(basicSpec)
	want := "False/ApplyFailed: ResourceQuota no-deployments in namespace " + w.NS + " is exceeded (count/deployments.apps), so Deployment web cannot be created"
	w.Eventually(w.condition("Applied"), "60s").Should(Equal(want))
	w.Expect(w.condition("Ready")()).To(Equal(want))
	w.Expect(w.service()).NotTo(BeNil(), "the other child is not delayed")
	calls := w.OperatorRequestsWithin(quietPeriod)
	// The backoff doubles from 20 ms: ten attempts in the first 20 s.
	w.Expect(len(calls)).To(BeNumerically("<=", 14), "%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev"))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ApplyFailed"))
	w.Expect(w.Delete(w.Context(), quota)).To(Succeed())
	w.Touch(w.appAndChildren()...) // trigger a retry instead of waiting for up to five minutes
	w.expectSteadyState()
}

// TestMutatingPolicyWins has a mutating policy change the applied fields: the policy wins, and the operator does not
// contend with it.
func TestMutatingPolicyWins(t *testing.T) {
	w := newStory(t)
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
	w.Eventually(func() string { // a new policy takes effect with a delay
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

	// Drift of other fields is still corrected.
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
