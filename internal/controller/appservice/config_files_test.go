package appservice_test

import (
	"testing"

	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// fileConfigMaps returns the ConfigMaps of the application.
func (w *world) fileConfigMaps() []corev1.ConfigMap {
	var list corev1.ConfigMapList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"app.kubernetes.io/managed-by": "holdfast"})).To(Succeed())
	return list.Items
}

// TestFileChangeRollsOut changes a file: pods are replaced, and the old ConfigMap is deleted after them.
func TestFileChangeRollsOut(t *testing.T) {
	w := newStory(t)
	w.create(`{image: "shop/web:1", config: {files: [{path: /etc/app/app.yaml, content: one}]}}`)
	w.waitReady()
	before := w.fileConfigMaps()
	w.Expect(before).To(HaveLen(1))
	w.Expect(before[0].Data).To(HaveKeyWithValue("etc_app_app.yaml", "one"))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Config.Files[0].Content = "two" })
	w.waitReady()
	w.Eventually(func() []string { return []string{w.fileConfigMaps()[0].Data["etc_app_app.yaml"]} }, "60s").Should(Equal([]string{"two"}))
	w.Eventually(w.fileConfigMaps, "60s").Should(HaveLen(1))
	w.Expect(w.fileConfigMaps()[0].UID).NotTo(Equal(before[0].UID))
	w.Expect(w.replicaSets()).To(HaveLen(2))
	w.Expect(w.Delete(w.Context(), &w.fileConfigMaps()[0])).To(Succeed())
	w.Eventually(w.fileConfigMaps, "60s").Should(HaveLen(1), "it is recreated")
	w.expectSteadyState()
}

// TestFileChangeWithoutRollout changes a file with rollOnChange: false.
func TestFileChangeWithoutRollout(t *testing.T) {
	w := newStory(t)
	w.create(`{image: "shop/web:1", config: {rollOnChange: false, files: [{path: /etc/app.yaml, content: one}]}}`)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Config.Files[0].Content = "two" })
	w.waitReady()
	config := &corev1.ConfigMap{ObjectMeta: w.objectMeta()}
	config.Name = "web-files"
	w.Expect(find(w, config).Data).To(Equal(map[string]string{"etc_app.yaml": "two"}))
	edit(w, config, func(c *corev1.ConfigMap) { c.Data["etc_app.yaml"] = "theirs" })
	w.Eventually(func() map[string]string { return find(w, config).Data }, "60s").Should(Equal(map[string]string{"etc_app.yaml": "two"}))
	w.Expect(w.replicaSets()).To(HaveLen(1))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Config.Files = nil })
	w.waitReady()
	w.Eventually(w.fileConfigMaps, "60s").Should(BeEmpty())
	w.expectSteadyState()
}

func rawExtension(content string) *runtime.RawExtension {
	return &runtime.RawExtension{Raw: []byte(content)}
}

// TestInvalidOverlayIsReported uses an overlay that the schema cannot reject.
func TestInvalidOverlayIsReported(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	calls := w.OperatorRequests(func() {
		w.editSpec(func(s *appsapi.AppServiceSpec) {
			s.PodTemplateOverlay = rawExtension(`{"spec":{"containers":[{"name":"app","securityContext":{"privileged":true}}]}}`)
		})
		w.Eventually(w.condition("Stalled"), "10s").Should(Equal("True/InvalidSpec: podTemplateOverlay sets spec.containers[0].securityContext, " +
			"which is not allowed; remove it, and use the fields security and serviceAccountName"))
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(BeZero())
	w.editSpec(func(s *appsapi.AppServiceSpec) {
		s.PodTemplateOverlay = rawExtension(`{"spec":{"containers":[{"name":"proxy","image":"shop/proxy:1"}]}}`)
	})
	w.waitReady()
	w.Expect(containerNames(w.deployment())).To(ConsistOf("app", "proxy"))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.PodTemplateOverlay = nil })
	w.waitReady()
	w.Expect(containerNames(w.deployment())).To(ConsistOf("app"))
	w.expectSteadyState()
}

// TestOptionalChildrenAreAddedAndRemoved enables and disables every optional child.
func TestOptionalChildrenAreAddedAndRemoved(t *testing.T) {
	w := newStory(t)
	budget := func() any { return find(w, &policyv1.PodDisruptionBudget{ObjectMeta: w.objectMeta()}) }
	autoscaler := func() any { return find(w, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: w.objectMeta()}) }
	w.create(`{image: "shop/web:1", replicas: 1}`)
	w.waitReady()
	w.Expect(budget()).To(BeNil())
	w.editSpec(func(s *appsapi.AppServiceSpec) {
		s.Replicas, s.Autoscaling = nil, &appsapi.AutoscalingSettings{MinReplicas: 2, MaxReplicas: 3, TargetCPUUtilization: 70}
	})
	w.waitReady()
	w.Expect(budget()).NotTo(BeNil())
	w.Expect(autoscaler()).NotTo(BeNil())
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Disruption.Budget = appsapi.DisruptionNone })
	w.Eventually(budget, "60s").Should(BeNil())
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Autoscaling = nil })
	w.Eventually(autoscaler, "60s").Should(BeNil())
	w.waitReady()
	w.expectSteadyState()
}
