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

	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// denial is one way in which a cluster says no.
type denial struct {
	// raise makes it say no, and returns what ends that.
	raise func(*world) (lift func())
	// object and cause are what the status has to name.
	object, cause string
	// ours says that what we send is refused. Otherwise it is what Kubernetes makes of it.
	ours bool
}

// cluster are the denials, by name.
var cluster = map[string]denial{
	"quota of pods": {object: "Deployment", cause: "ResourceQuota no-more of namespace", raise: func(w *world) func() {
		return w.quota("no-more", corev1.ResourcePods, fmt.Sprint(len(w.pods())))
	}},
	"quota of jobs": {object: "Job shop-migrate", cause: "ResourceQuota no-more of namespace", ours: true, raise: func(w *world) func() {
		return w.quota("no-more", "count/jobs.batch", "1")
	}},
	"Pod Security": {object: "shop-web", cause: "enforces PodSecurity level restricted", raise: func(w *world) func() {
		w.labels("pod-security.kubernetes.io/enforce", `"restricted"`)
		w.refusesNow(w.probe())
		return func() { w.labels("pod-security.kubernetes.io/enforce", "null") }
	}},
	"LimitRange": {object: "shop-web", cause: "sets a minimum of 64Mi memory per Container", raise: func(w *world) func() {
		limits := &corev1.LimitRange{ObjectMeta: w.meta("at-least"), Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}}}}}
		lift := w.put(limits)
		w.refusesNow(w.probe())
		return lift
	}},
	"admission policy": {object: "Deployment shop-web", cause: "shop/web:2 is not approved", ours: true, raise: (*world).policy},
	"webhook":          {object: "Deployment shop-web", cause: "not on a Friday", ours: true, raise: (*world).webhook},
}

// put creates an object and returns what deletes it.
func (w *world) put(obj client.Object) func() {
	w.Helper()
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
	return func() { w.Expect(w.Delete(w.Context(), obj)).To(Succeed()) }
}

// quota allows so many of something, and waits until they are counted: before that
// everything is refused, in other words.
func (w *world) quota(name string, what corev1.ResourceName, most string) func() {
	w.Helper()
	quota := &corev1.ResourceQuota{ObjectMeta: w.meta(name),
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse(most)}}}
	lift := w.put(quota)
	w.Eventually(func() corev1.ResourceList { return stage.Find(w.World, quota).Status.Used }, "60s", "20ms").ShouldNot(BeEmpty())
	return lift
}

// policy refuses the new image of web.
func (w *world) policy() func() {
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
	w.put(policy)
	lift := w.put(binding)
	w.refusesNow(w.newWeb())
	return lift
}

// newWeb is a Deployment with the new image of web.
func (w *world) newWeb() client.Object {
	d := w.deployment("shop-web")
	d.ObjectMeta = w.meta("probe")
	d.Spec.Template.Spec.Containers[0].Image = "shop/web:2"
	return d
}

// webhook is somebody's program that refuses the new image of web.
func (w *world) webhook() func() {
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
		_ = json.NewEncoder(out).Encode(review) // who does not listen does not hear
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
	lift := w.put(hook)
	w.refusesNow(w.newWeb())
	return lift
}
