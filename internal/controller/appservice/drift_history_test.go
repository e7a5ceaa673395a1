package appservice_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// notes returns the texts of the events with a reason.
func (w *world) notes(reason string) []string {
	w.Helper()
	var list eventsv1.EventList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	var notes []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && e.Regarding.Name == w.name {
			w.Expect(e.Regarding.FieldPath).To(BeEmpty(), "kubectl describe prints it before the text")
			notes = append(notes, e.Note)
		}
	}
	return notes
}

// TestUpdateEventsNameTheirCause changes a Service, and then twice a Secret that the pods use.
func TestUpdateEventsNameTheirCause(t *testing.T) {
	w := newStory(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop-env"}, StringData: map[string]string{"TOKEN": "one"}}
	w.Expect(w.Create(w.Context(), secret)).To(Succeed())
	w.create(basicSpec + "\nenvFrom: [{secretRef: {name: shop-env}}]")
	w.waitReady()
	w.editSpec(func(s *appsapi.AppServiceSpec) {
		s.Service.Annotations = map[string]appsapi.AnnotationValue{"example.com/team": "red"}
	})
	w.Eventually(func() []string { return w.notes("ComponentUpdated") }, "60s").Should(ConsistOf(
		"Updated Service web: metadata.annotations[example.com/team] changed"))
	w.WaitIdle(w.name)
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady", "ComponentUpdated"), "a change without a rollout is one event")
	for _, value := range []string{"two", "three"} {
		hash := w.deployment().Spec.Template.Annotations["apps.holdfast.dev/config-hash"]
		edit(w, secret, func(s *corev1.Secret) { s.StringData = map[string]string{"TOKEN": value} })
		w.Eventually(func() string { return w.deployment().Spec.Template.Annotations["apps.holdfast.dev/config-hash"] }, "60s").ShouldNot(Equal(hash))
	}
	w.Eventually(func() []string { return w.notes("ComponentUpdated") }, "60s").Should(ConsistOf(
		"Updated Service web: metadata.annotations[example.com/team] changed",
		"Updated Deployment web: Secret shop-env changed"), "equal changes are one event with a count")
}

// TestDriftHistory changes and deletes children: the events and the status tell which client changed which
// field.
func TestDriftHistory(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec + "\nenv: [{name: TOKEN, value: geheim}]")
	w.waitReady()
	w.WaitIdle(w.name)
	d := &appsv1.Deployment{ObjectMeta: w.objectMeta()}
	w.Expect(w.Patch(w.Context(), d, client.RawPatch("application/strategic-merge-patch+json",
		[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"theirs:9","env":[{"name":"TOKEN","value":"verraten"}]}]}}}}`)),
		client.FieldOwner("kubectl-set"))).To(Succeed())
	w.Eventually(func() []appsapi.DriftCorrection { return w.app().Status.Drift }, "60s").Should(HaveLen(1))
	image := appsapi.CorrectedField{Path: "spec.template.spec.containers[app].image", From: "theirs:9", To: "shop/web:1"}
	env := appsapi.CorrectedField{Path: "spec.template.spec.containers[app].env[TOKEN].value", From: "(hidden)", To: "(hidden)"}
	entry := w.app().Status.Drift[0]
	w.Expect(entry.Object).To(Equal(appsapi.ObjectReference{Kind: "Deployment", Name: "web"}))
	w.Expect(entry.Fields).To(ConsistOf(image, env))
	w.Expect(entry.Managers).To(Equal([]string{"kubectl-set"}))
	w.Expect(entry.Count).To(BeEquivalentTo(1))

	w.Expect(w.Delete(w.Context(), w.service())).To(Succeed())
	w.Eventually(func() []appsapi.DriftCorrection { return w.app().Status.Drift }, "60s").Should(HaveLen(2))
	entry = w.app().Status.Drift[0]
	w.Expect(entry.Object.Kind).To(Equal("Service"))
	w.Expect(entry.Deleted).To(BeTrue())

	w.Eventually(func() []string { return w.notes("DriftCorrected") }, "60s").Should(ConsistOf(
		HavePrefix("Corrected Deployment web, which kubectl-set had changed: "),
		"Created Service web again, which another client had deleted"))
	w.Expect(strings.Join(w.notes("DriftCorrected"), "\n")).To(ContainSubstring(`spec.template.spec.containers[app].image from "theirs:9" to "shop/web:1"`))
	w.Expect(w.notes("ComponentUpdated")).To(BeEmpty())
	w.waitReady()
	w.expectSteadyState()
}

// TestForeignFieldsAreNoDrift changes fields that the operator does not own.
func TestForeignFieldsAreNoDrift(t *testing.T) {
	w := newStory(t)
	w.create("image: shop/web:1\nports: [{port: 80}]")
	w.waitReady()
	edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
	edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Template.Labels["team"] = "red" })
	edit(w, w.service(), func(s *corev1.Service) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "example.com/team", "red") })
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.waitReady()
	w.Expect(w.app().Status.Drift).To(BeEmpty())
	w.Expect(w.notes("DriftCorrected")).To(BeEmpty())
	w.expectSteadyState()
}
