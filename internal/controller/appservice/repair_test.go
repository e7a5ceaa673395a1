package appservice_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// holdfastLabelKeys returns the keys of Holdfast labels.
func holdfastLabelKeys(labels map[string]string) []string {
	var keys []string
	for k := range labels {
		if strings.HasPrefix(k, "app.kubernetes.io/") || strings.HasPrefix(k, "apps.holdfast.dev/") {
			keys = append(keys, k)
		}
	}
	return keys
}

// driftMutations are typical manual changes of a child.
var driftMutations = map[string]func(client.Object){
	"owner stripped":     func(o client.Object) { o.SetOwnerReferences(nil) },
	"labels removed":     func(o client.Object) { o.SetLabels(nil) },
	"managed-by removed": func(o client.Object) { delete(o.GetLabels(), "app.kubernetes.io/managed-by") },
	"applied removed":    func(o client.Object) { delete(o.GetAnnotations(), "apps.holdfast.dev/applied-hash") },
	"owner and label stripped": func(o client.Object) {
		o.SetOwnerReferences(nil)
		delete(o.GetLabels(), "app.kubernetes.io/managed-by")
	},
}

func TestDeletedChildIsRecreated(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	for _, child := range w.children() {
		uid := child.GetUID()
		calls := w.OperatorRequests(func() {
			w.Expect(w.Delete(w.Context(), child)).To(Succeed())
			w.Eventually(func() bool {
				err := w.Get(w.Context(), client.ObjectKeyFromObject(child), child)
				return err == nil && child.GetUID() != uid
			}, "60s", "20ms").Should(BeTrue())
			w.waitReady()
			w.WaitIdle(w.name)
		})
		w.Expect(acceptedChildWrites(calls)).To(Equal(1), "%s", calls.Count())
	}
	w.expectSteadyState()
}

func TestRenamedContainerIsRepaired(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	d := &appsv1.Deployment{ObjectMeta: w.objectMeta()}
	edit(w, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Name = "theirs" })
	w.Eventually(func() []string { return containerNames(w.deployment()) }, "60s").Should(ConsistOf("app", "theirs"))
	w.expectSteadyState()
}

func TestMetadataDriftIsRepaired(t *testing.T) {
	t.Parallel()
	for what, change := range driftMutations {
		t.Run(what, func(t *testing.T) { newStory(t).expectRepaired(change) })
	}
}

func (w *world) children() []client.Object {
	all := []client.Object{w.deployment(), w.service()}
	if budget := find(w, &policyv1.PodDisruptionBudget{ObjectMeta: w.objectMeta()}); budget != nil {
		all = append(all, budget)
	}
	return all
}

// acceptedChildWrites counts the accepted writes to children.
func acceptedChildWrites(calls audit.Events) int {
	return len(calls.Of("deployments.apps", "services", "configmaps", "horizontalpodautoscalers.autoscaling",
		"poddisruptionbudgets.policy", "ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io").Writes().Where((*audit.Event).Accepted))
}

func containerNames(d *appsv1.Deployment) []string {
	var names []string
	for i := range d.Spec.Template.Spec.Containers {
		names = append(names, d.Spec.Template.Spec.Containers[i].Name)
	}
	return names
}

// expectRepaired changes each child: it is corrected with one accepted write and keeps its UID.
func (w *world) expectRepaired(mutate func(client.Object)) {
	app := w.create(basicSpec)
	w.waitReady()
	for _, child := range w.children() {
		uid, labels, hash := child.GetUID(), child.GetLabels(), child.GetAnnotations()["apps.holdfast.dev/applied-hash"]
		w.Expect(holdfastLabelKeys(labels)).NotTo(BeEmpty())
		calls := w.OperatorRequests(func() {
			edit(w, child, mutate)
			w.Eventually(func() map[string]string {
				w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(child), child)).To(Succeed())
				if !metav1.IsControlledBy(child, app) || child.GetAnnotations()["apps.holdfast.dev/applied-hash"] != hash {
					return nil
				}
				return child.GetLabels()
			}, "60s", "20ms").Should(Equal(labels))
			w.WaitIdle(w.name)
		})
		w.Expect(child.GetUID()).To(Equal(uid))
		w.Expect(acceptedChildWrites(calls)).To(Equal(1), "%s", calls.Count())
	}
	w.expectSteadyState()
}

// TestDeletedChildHeldByFinalizer deletes a child that has a finalizer: the status names the finalizer, and the operator
// does not retry in a loop.
func TestDeletedChildHeldByFinalizer(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	service := w.service()
	edit(w, service, func(s *corev1.Service) { s.Finalizers = append(s.Finalizers, "example.com/theirs") })
	w.Expect(w.Delete(w.Context(), service)).To(Succeed())
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(
		"False/Progressing: Service " + w.NS + "/web is being deleted; waiting for finalizers example.com/theirs"))
	w.WaitIdle(w.name)
	uid := service.UID
	edit(w, service, func(s *corev1.Service) { s.Finalizers = nil })
	w.Eventually(func() bool { s := w.service(); return s != nil && s.UID != uid }, "60s").Should(BeTrue())
	w.expectSteadyState()
}

// TestForeignFieldsAreKept adds fields of another manager: they cause no write and are kept by updates.
func TestForeignFieldsAreKept(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() {
		edit(w, &appsv1.Deployment{ObjectMeta: w.objectMeta()}, func(d *appsv1.Deployment) {
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
		edit(w, &corev1.Service{ObjectMeta: w.objectMeta()}, func(s *corev1.Service) {
			s.Labels["example.com/team"] = "red"
			s.Annotations["example.com/note"] = "mine"
			s.Finalizers = append(s.Finalizers, "example.com/theirs")
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090})
			s.Spec.ExternalTrafficPolicy = ""
		})
		w.Eventually(func() int64 { return w.deployment().Status.ObservedGeneration }, "60s").Should(BeNumerically(">", 1))
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(BeZero(), "%s", calls.Count())
	edit(w, &appsapi.AppService{ObjectMeta: w.objectMeta()}, func(a *appsapi.AppService) { a.Spec.Image = "shop/web:2" })
	w.Eventually(func() string { return w.deployment().Spec.Template.Spec.Containers[1].Image }, "60s").Should(Equal("shop/web:2"))
	w.waitReady()
	d, s := w.deployment(), w.service()
	template := d.Spec.Template
	w.Expect(containerNames(d)).To(Equal([]string{"sidecar", "app"}))
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
	w.expectSteadyState()
}
