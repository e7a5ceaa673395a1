package environment

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	. "github.com/onsi/gomega"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// denial is a way in which a cluster rejects changes.
type denial struct {
	// impose starts to reject; lift stops it.
	impose func(*world) (lift func())
	// object and cause must appear in the status.
	object, cause string
	// rejectsOperatorWrites means that writes of the operator are rejected, not those of Kubernetes controllers.
	rejectsOperatorWrites bool
}

// denialCases are the denials by name.
var denialCases = map[string]denial{
	"quota of pods": {object: "Deployment", cause: "ResourceQuota no-more in namespace", impose: func(w *world) func() {
		return w.createQuota("no-more", corev1.ResourcePods, fmt.Sprint(len(w.runningPods())))
	}},
	"quota of jobs": {object: "Job shop-migrate", cause: "ResourceQuota no-more in namespace", rejectsOperatorWrites: true, impose: func(w *world) func() {
		return w.createQuota("no-more", "count/jobs.batch", "1")
	}},
	"Pod Security": {object: "shop-web", cause: "enforces PodSecurity level restricted", impose: func(w *world) func() {
		w.labelNamespace("pod-security.kubernetes.io/enforce", `"restricted"`)
		w.waitUntilRejected(w.probePod())
		return func() { w.labelNamespace("pod-security.kubernetes.io/enforce", "null") }
	}},
	"LimitRange": {object: "shop-web", cause: "sets a minimum of 64Mi memory per Container", impose: func(w *world) func() {
		limits := &corev1.LimitRange{ObjectMeta: w.objectMeta("at-least"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}}
		lift := w.createTemporary(limits)
		w.waitUntilRejected(w.probePod())
		return lift
	}},
	"admission policy": {object: "Deployment shop-web", cause: "shop/web:2 is not approved", rejectsOperatorWrites: true, impose: (*world).createPolicy},
	"webhook":          {object: "Deployment shop-web", cause: "not on a Friday", rejectsOperatorWrites: true, impose: (*world).createWebhook},
}

// createTemporary creates an object and returns a function that deletes it.
func (w *world) createTemporary(obj client.Object) func() {
	w.Helper()
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
	return func() { w.Expect(w.Delete(w.Context(), obj)).To(Succeed()) }
}

// createQuota limits a resource and waits until usage is counted: before that, requests are rejected with a different
// message.
func (w *world) createQuota(name string, resourceName corev1.ResourceName, limit string) func() {
	w.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: w.objectMeta(name),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{resourceName: resource.MustParse(limit)}}}
	lift := w.createTemporary(quota)
	w.Eventually(func() corev1.ResourceList { return harness.Find(w.World, quota).Status.Used }, "60s", "20ms").ShouldNot(BeEmpty())
	return lift
}

// createPolicy rejects the new image of web.
func (w *world) createPolicy() func() {
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	w.Expect(yaml.UnmarshalStrict([]byte(`
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: `+w.NS+`}}
    resourceRules: [{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]
  validations:
  - expression: object.spec.template.spec.containers.all(c, c.image != "shop/web:2")
    message: shop/web:2 is not approved`), policy)).To(Succeed())
	policy.Name = w.NS
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: w.NS}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: w.NS, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	w.createTemporary(policy)
	lift := w.createTemporary(binding)
	w.waitUntilRejected(w.updatedWeb())
	return lift
}

// updatedWeb returns a Deployment with the new image of web.
func (w *world) updatedWeb() client.Object {
	d := w.getDeployment("shop-web")
	d.ObjectMeta = w.objectMeta("probe")
	d.Spec.Template.Spec.Containers[0].Image = "shop/web:2"
	return d
}

// createWebhook starts a webhook that rejects the new image of web.
func (w *world) createWebhook() func() {
	server := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var review admissionapi.AdmissionReview
		if err := json.NewDecoder(in.Body).Decode(&review); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if strings.Contains(string(review.Request.Object.Raw), "shop/web:2") {
			review.Response.Allowed = false
			review.Response.Result = &metav1.Status{Message: "not on a Friday", Code: http.StatusNotAcceptable}
		}
		review.Request = nil
		_ = json.NewEncoder(out).Encode(review) // the client may have disconnected
	}))
	w.Cleanup(server.Close)
	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: w.NS}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "fridays.example.com",
		ClientConfig: admissionv1.WebhookClientConfig{URL: &server.URL,
			CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
		}},
		NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.NS}},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}}}
	lift := w.createTemporary(hook)
	w.waitUntilRejected(w.updatedWeb())
	return lift
}
