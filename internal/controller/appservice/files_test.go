package appservice_test

import (
	. "github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func init() {
	stories["files"] = filesRoll
	stories["files that do not roll"] = filesInPlace
	stories["an overlay that cannot be merged"] = badOverlay
	stories["settings come and go"] = settingsComeAndGo
}

// files are the ConfigMaps of the application.
func (w *world) files() []corev1.ConfigMap {
	var list corev1.ConfigMapList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"app.kubernetes.io/managed-by": "holdfast"})).To(Succeed())
	return list.Items
}

// filesRoll changes a file: pods are replaced, and the files of the old ones go after them.
func filesRoll(w *world) {
	w.create(`{image: "shop/web:1", config: {files: [{path: /etc/app/app.yaml, content: one}]}}`)
	w.becomesReady()
	before := w.files()
	w.Expect(before).To(HaveLen(1))
	w.Expect(before[0].Data).To(HaveKeyWithValue("etc_app_app.yaml", "one"))
	w.change(func(s *appsapi.AppServiceSpec) { s.Config.Files[0].Content = "two" })
	w.becomesReady()
	w.Eventually(func() []string { return []string{w.files()[0].Data["etc_app_app.yaml"]} }, "60s").Should(Equal([]string{"two"}))
	w.Eventually(w.files, "60s").Should(HaveLen(1))
	w.Expect(w.files()[0].UID).NotTo(Equal(before[0].UID))
	w.Expect(w.replicaSets()).To(HaveLen(2))
	w.Expect(w.Delete(w.Context(), &w.files()[0])).To(Succeed())
	w.Eventually(w.files, "60s").Should(HaveLen(1), "it comes back")
	w.settles()
}

// filesInPlace changes a file of pods that are to be left alone.
func filesInPlace(w *world) {
	w.create(`{image: "shop/web:1", config: {rollOnChange: false, files: [{path: /etc/app.yaml, content: one}]}}`)
	w.becomesReady()
	w.change(func(s *appsapi.AppServiceSpec) { s.Config.Files[0].Content = "two" })
	w.becomesReady()
	config := &corev1.ConfigMap{ObjectMeta: w.meta()}
	config.Name = "web-files"
	w.Expect(get(w, config).Data).To(Equal(map[string]string{"etc_app.yaml": "two"}))
	edit(w, config, func(c *corev1.ConfigMap) { c.Data["etc_app.yaml"] = "theirs" })
	w.Eventually(func() map[string]string { return get(w, config).Data }, "60s").Should(Equal(map[string]string{"etc_app.yaml": "two"}))
	w.Expect(w.replicaSets()).To(HaveLen(1))
	w.change(func(s *appsapi.AppServiceSpec) { s.Config.Files = nil })
	w.becomesReady()
	w.Eventually(w.files, "60s").Should(BeEmpty())
	w.settles()
}

func raw(content string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(content)} }

// badOverlay says something that no schema can refuse.
func badOverlay(w *world) {
	w.create(usual)
	w.becomesReady()
	calls := w.Calls(func() {
		w.change(func(s *appsapi.AppServiceSpec) {
			s.PodTemplateOverlay = raw(`{"spec":{"containers":[{"name":"app","securityContext":{"privileged":true}}]}}`)
		})
		w.Eventually(w.condition("Stalled"), "10s").Should(Equal("True/InvalidSpec: podTemplateOverlay sets spec.containers[0].securityContext, " +
			"which it may not: security and serviceAccountName say what pods may do; remove it"))
		w.FallsSilent(w.name)
	})
	w.Expect(accepted(calls)).To(BeZero())
	w.change(func(s *appsapi.AppServiceSpec) {
		s.PodTemplateOverlay = raw(`{"spec":{"containers":[{"name":"proxy","image":"shop/proxy:1"}]}}`)
	})
	w.becomesReady()
	w.Expect(containers(w.deployment())).To(ConsistOf("app", "proxy"))
	w.change(func(s *appsapi.AppServiceSpec) { s.PodTemplateOverlay = nil })
	w.becomesReady()
	w.Expect(containers(w.deployment())).To(ConsistOf("app"))
	w.settles()
}

// settingsComeAndGo switches everything that is a child of its own on and off.
func settingsComeAndGo(w *world) {
	budget := func() any { return get(w, &policyv1.PodDisruptionBudget{ObjectMeta: w.meta()}) }
	autoscaler := func() any { return get(w, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: w.meta()}) }
	w.create(`{image: "shop/web:1", replicas: 1}`)
	w.becomesReady()
	w.Expect(budget()).To(BeNil())
	w.change(func(s *appsapi.AppServiceSpec) {
		s.Replicas, s.Autoscaling = nil, &appsapi.AutoscalingSettings{MinReplicas: 2, MaxReplicas: 3, TargetCPUUtilization: 70}
	})
	w.becomesReady()
	w.Expect(budget()).NotTo(BeNil())
	w.Expect(autoscaler()).NotTo(BeNil())
	w.change(func(s *appsapi.AppServiceSpec) { s.Disruption.Budget = appsapi.DisruptionNone })
	w.Eventually(budget, "60s").Should(BeNil())
	w.change(func(s *appsapi.AppServiceSpec) { s.Autoscaling = nil })
	w.Eventually(autoscaler, "60s").Should(BeNil())
	w.becomesReady()
	w.settles()
}
