package appservice_test

import (
	"strings"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// ours are the keys of our labels, wherever they are.
func ours(labels map[string]string) []string {
	var keys []string
	for k := range labels {
		if strings.HasPrefix(k, "app.kubernetes.io/") || strings.HasPrefix(k, "apps.holdfast.dev/") {
			keys = append(keys, k)
		}
	}
	return keys
}

// harm is what people do to a child with an editor.
var harm = map[string]func(client.Object){
	"owner stripped":     func(o client.Object) { o.SetOwnerReferences(nil) },
	"labels removed":     func(o client.Object) { o.SetLabels(nil) },
	"managed-by removed": func(o client.Object) { delete(o.GetLabels(), "app.kubernetes.io/managed-by") },
	"applied removed":    func(o client.Object) { delete(o.GetAnnotations(), "apps.holdfast.dev/applied") },
	"owner and label stripped": func(o client.Object) {
		o.SetOwnerReferences(nil)
		delete(o.GetLabels(), "app.kubernetes.io/managed-by")
	},
}

func init() {
	for what, change := range harm {
		stories["repair: "+what] = func(w *world) { w.repairs(change) }
	}
	stories["repair: deleted"] = func(w *world) {
		w.create(usual)
		w.becomesReady()
		for _, child := range w.children() {
			uid := child.GetUID()
			calls := w.Calls(func() {
				w.Expect(w.Delete(w.Context(), child)).To(Succeed())
				w.Eventually(func() bool {
					err := w.Get(w.Context(), client.ObjectKeyFromObject(child), child)
					return err == nil && child.GetUID() != uid
				}, "60s", "20ms").Should(BeTrue())
				w.becomesReady()
				w.FallsSilent(w.name)
			})
			w.Expect(accepted(calls)).To(Equal(1), "%s", calls.Count())
		}
		w.settles()
	}
	stories["repair: deleted and held by a finalizer"] = heldByFinalizer
	stories["foreign fields stay"] = foreignFieldsStay
	stories["repair: a probe of another kind"] = probeOfAnotherKind
	stories["repair: the container is renamed"] = func(w *world) {
		w.create(usual)
		w.becomesReady()
		d := &appsv1.Deployment{ObjectMeta: w.meta()}
		edit(w, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "theirs" })
		w.Eventually(func() []string { return containers(w.deployment()) }, "60s").Should(ConsistOf("app", "theirs"))
		w.settles()
	}
}

func (w *world) children() []client.Object {
	all := []client.Object{w.deployment(), w.service()}
	if budget := get(w, &policyv1.PodDisruptionBudget{ObjectMeta: w.meta()}); budget != nil {
		all = append(all, budget)
	}
	return all
}

// accepted counts the writes to children that the API server accepted.
func accepted(calls audit.Events) int {
	return len(calls.Of("deployments.apps", "services", "configmaps", "horizontalpodautoscalers.autoscaling",
		"poddisruptionbudgets.policy", "ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io").Writes().Where((*audit.Event).Accepted))
}

func containers(d *appsv1.Deployment) []string {
	var names []string
	for i := range d.Spec.Template.Spec.Containers {
		names = append(names, d.Spec.Template.Spec.Containers[i].Name)
	}
	return names
}

// repairs harms each child: it is whole again after one accepted write, and is still the
// same object.
func (w *world) repairs(harm func(client.Object)) {
	app := w.create(usual)
	w.becomesReady()
	for _, child := range w.children() {
		uid, labels, hash := child.GetUID(), child.GetLabels(), child.GetAnnotations()["apps.holdfast.dev/applied"]
		w.Expect(ours(labels)).NotTo(BeEmpty())
		calls := w.Calls(func() {
			edit(w, child, harm)
			w.Eventually(func() map[string]string {
				w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(child), child)).To(Succeed())
				if !metav1.IsControlledBy(child, app) || child.GetAnnotations()["apps.holdfast.dev/applied"] != hash {
					return nil
				}
				return child.GetLabels()
			}, "60s", "20ms").Should(Equal(labels))
			w.FallsSilent(w.name)
		})
		w.Expect(child.GetUID()).To(Equal(uid))
		w.Expect(accepted(calls)).To(Equal(1), "%s", calls.Count())
	}
	w.settles()
}

// heldByFinalizer deletes a child that cannot go: the status says whom it waits for, and
// nothing is hammered meanwhile.
func heldByFinalizer(w *world) {
	w.create(usual)
	w.becomesReady()
	service := w.service()
	edit(w, service, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/theirs") })
	w.Expect(w.Delete(w.Context(), service)).To(Succeed())
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(
		"False/Progressing: Service " + w.NS + "/web is being deleted and waits for example.com/theirs"))
	w.FallsSilent(w.name)
	uid := service.UID
	edit(w, service, func(s *corev1.Service) { s.Finalizers = nil })
	w.Eventually(func() bool { s := w.service(); return s != nil && s.UID != uid }, "60s").Should(BeTrue())
	w.settles()
}

// foreignFieldsStay adds what others add: it costs no write, and it is there after an
// update too.
func foreignFieldsStay(w *world) {
	w.create(usual)
	w.becomesReady()
	w.FallsSilent(w.name)
	calls := w.Calls(func() {
		edit(w, &appsv1.Deployment{ObjectMeta: w.meta()}, func(d *appsv1.Deployment) {
			d.Labels["example.com/team"] = "red"
			d.Annotations["example.com/note"] = "mine"
			d.Finalizers = append(d.Finalizers, "example.com/theirs")
			d.Spec.RevisionHistoryLimit = new(int32(3))
			template := &d.Spec.Template
			template.Annotations["kubectl.kubernetes.io/restartedAt"] = "2026-01-02T03:04:05Z"
			template.Labels["example.com/team"] = "red"
			template.Spec.Containers[0].Env = append(template.Spec.Containers[0].Env, corev1.EnvVar{Name: "THEIRS", Value: "1"})
			template.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "theirs/sidecar:1"}}, template.Spec.Containers...)
			template.Spec.NodeSelector = map[string]string{"kubernetes.io/os": "linux"}
		})
		edit(w, &corev1.Service{ObjectMeta: w.meta()}, func(s *corev1.Service) {
			s.Labels["example.com/team"] = "red"
			s.Annotations["example.com/note"] = "mine"
			s.Finalizers = append(s.Finalizers, "example.com/theirs")
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090})
			s.Spec.ExternalTrafficPolicy = ""
		})
		w.Eventually(func() int64 { return w.deployment().Status.ObservedGeneration }, "60s").Should(BeNumerically(">", 1))
		w.becomesReady()
		w.FallsSilent(w.name)
	})
	w.Expect(accepted(calls)).To(BeZero(), "%s", calls.Count())
	edit(w, &appsapi.AppService{ObjectMeta: w.meta()}, func(a *appsapi.AppService) { a.Spec.Image = "shop/web:2" })
	w.Eventually(func() string { return w.deployment().Spec.Template.Spec.Containers[1].Image }, "60s").Should(Equal("shop/web:2"))
	w.becomesReady()
	d, s := w.deployment(), w.service()
	template := d.Spec.Template
	w.Expect(containers(d)).To(Equal([]string{"sidecar", "app"}))
	w.Expect(template.Spec.Containers[1].Env).To(ContainElement(corev1.EnvVar{Name: "THEIRS", Value: "1"}))
	w.Expect(template.Spec.NodeSelector).To(HaveKey("kubernetes.io/os"))
	w.Expect(template.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
	w.Expect(*d.Spec.RevisionHistoryLimit).To(BeEquivalentTo(3))
	w.Expect(s.Spec.Ports).To(HaveLen(2))
	for _, child := range []client.Object{d, s} {
		w.Expect(child.GetLabels()).To(HaveKeyWithValue("example.com/team", "red"))
		w.Expect(child.GetAnnotations()).To(HaveKeyWithValue("example.com/note", "mine"))
		w.Expect(child.GetFinalizers()).To(ConsistOf("example.com/theirs"))
	}
	w.settles()
}

// probeOfAnotherKind replaces the handler of our probe, beside which ours is not legal:
// the repair is one change of the pods, and leaves nothing behind.
func probeOfAnotherKind(w *world) {
	w.create(usual)
	w.becomesReady()
	w.FallsSilent(w.name)
	before := w.deployment()
	calls := w.Calls(func() {
		edit(w, w.deployment(), func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/theirs", Port: intstr.FromInt32(8080)}}
		})
		w.Eventually(func() *corev1.TCPSocketAction {
			return w.deployment().Spec.Template.Spec.Containers[0].ReadinessProbe.TCPSocket
		}, "60s", "20ms").ShouldNot(BeNil())
		w.becomesReady()
		w.FallsSilent(w.name)
	})
	after := w.deployment()
	w.Expect(after.Spec.Template).To(Equal(before.Spec.Template))
	w.Expect(after.Generation).To(Equal(before.Generation+2), "their change and ours, nothing in between")
	w.Expect(accepted(calls)).To(Equal(2), "who holds the field, and the field:\n%s", calls.Count())

	// The same change by the spec needs none of that.
	w.FallsSilent(w.name)
	calls = w.Calls(func() {
		edit(w, &appsapi.AppService{ObjectMeta: w.meta()}, func(a *appsapi.AppService) {
			a.Spec.Probes.Readiness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}
		})
		w.becomesReady()
		w.FallsSilent(w.name)
	})
	w.Expect(w.deployment().Spec.Template.Spec.Containers[0].ReadinessProbe.TCPSocket).To(BeNil())
	w.Expect(accepted(calls)).To(Equal(1), "%s", calls.Count())
	w.settles()
}
