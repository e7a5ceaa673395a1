package appservice_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/gatewayapi"
)

const gatewaySpec = `
image: shop/web:1
ports: [{port: 80}]
expose: {hostnames: [shop.example.com], gatewayRef: {name: public, namespace: infra}}`

func (w *world) httpRoute() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("gateway.networking.k8s.io/v1")
	u.SetKind("HTTPRoute")
	u.SetNamespace(w.NS)
	u.SetName(w.name)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(u), u); err != nil {
		return nil
	}
	return u
}

// TestExposeThroughGateway exposes a service through a Gateway in a cluster in which the Gateway API is installed later
// and then removed. The test simulates the Gateway controller.
func TestExposeThroughGateway(t *testing.T) {
	w := newStory(t)
	unknown := fmt.Sprintf("False/ApplyFailed: HTTPRoute %s/web cannot be created because the cluster does not serve kind HTTPRoute of "+
		"gateway.networking.k8s.io/v1; install the Gateway API, or use expose.ingressClassName instead of expose.gatewayRef", w.NS)
	w.create(gatewaySpec)
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(unknown))
	w.Expect(w.service()).NotTo(BeNil(), "other children exist")

	crds, err := w.Plane.InstallCRDs(gatewayapi.HTTPRouteCRD(w.T))
	w.Expect(err).NotTo(HaveOccurred())
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(fmt.Sprintf(
		"False/Progressing: HTTPRoute %s/web waits for Gateway infra/public to accept it; check that the Gateway exists and has a controller", w.NS)))
	w.setRouteStatus("Accepted", "False", "NotAllowedByListeners")
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(fmt.Sprintf(
		"False/ComponentDegraded: HTTPRoute %s/web is not attached to Gateway infra/public: NotAllowedByListeners", w.NS)))
	w.setRouteStatus("Accepted", "True", "Accepted")
	w.waitReady()
	w.Expect(w.app().Status.Endpoints[0].URL).To(Equal("http://shop.example.com/"))

	route := w.httpRoute()
	w.Expect(unstructured.SetNestedStringSlice(route.Object, []string{"theirs.example.com"}, "spec", "hostnames")).To(Succeed())
	w.Expect(w.Update(w.Context(), route)).To(Succeed())
	w.Eventually(func() []string {
		hosts, _, _ := unstructured.NestedStringSlice(w.httpRoute().Object, "spec", "hostnames")
		return hosts
	}, "60s").Should(Equal([]string{"shop.example.com"}), "drift is corrected")
	w.setRouteStatus("Accepted", "True", "Accepted")
	w.waitReady()
	w.WaitIdle(w.name)
	w.expectSteadyState()

	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Expose.GatewayRef, s.Expose.IngressClassName = nil, "nginx" })
	w.waitReady()
	w.Eventually(w.httpRoute, "60s").Should(BeNil())
	w.Expect(find(w, &networkingv1.Ingress{ObjectMeta: w.objectMeta()}).Spec.Rules[0].Host).To(Equal("shop.example.com"))

	w.editSpec(func(s *appsapi.AppServiceSpec) {
		s.Expose.GatewayRef, s.Expose.IngressClassName = &appsapi.GatewayReference{Name: "public"}, ""
	})
	w.Eventually(w.httpRoute, "60s").ShouldNot(BeNil())
	w.deleteAndRestoreCRD(crds, unknown)
}

// deleteAndRestoreCRD deletes the CRD and installs it again.
func (w *world) deleteAndRestoreCRD(crds []*apiextensionsv1.CustomResourceDefinition, unknown string) {
	w.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(crds[0].Name)
	w.Expect(w.Delete(w.Context(), crd)).To(Succeed())
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(unknown))
	calls := w.OperatorRequestsWithin(5 * time.Second)
	w.Expect(acceptedChildWrites(calls)+len(calls.Of("appservices.apps.holdfast.dev").Writes())).To(BeZero(), "%s", calls.Count())
	w.Eventually(func() error {
		_, err := w.Plane.InstallCRDs(gatewayapi.HTTPRouteCRD(w.T))
		return err
	}, "60s").Should(Succeed())
	w.Eventually(w.httpRoute, "60s").ShouldNot(BeNil())
	w.setRouteStatus("Accepted", "True", "Accepted")
	w.waitReady()
	w.expectSteadyState()
}

// setRouteStatus sets a condition of the route, as a Gateway controller does.
func (w *world) setRouteStatus(condition, status, reason string) {
	w.Helper()
	w.Eventually(func() error {
		route := w.httpRoute()
		if route == nil {
			return fmt.Errorf("no HTTPRoute")
		}
		refs, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
		newCondition := func(kind, status, reason string) any {
			return map[string]any{"type": kind, "status": status, "reason": reason, "message": "",
				"lastTransitionTime": metav1.Now().UTC().Format(time.RFC3339), "observedGeneration": route.GetGeneration()}
		}
		route.Object["status"] = map[string]any{"parents": []any{map[string]any{
			"parentRef": refs[0], "controllerName": "example.com/gateway",
			"conditions": []any{newCondition(condition, status, reason), newCondition("ResolvedRefs", "True", "ResolvedRefs")},
		}}}
		return w.Status().Update(w.Context(), route)
	}, "60s").Should(Succeed())
}
