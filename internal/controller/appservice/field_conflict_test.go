package appservice_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// editProbe replaces the handler of the declared probe, as kubectl edit does. The API server would reject the operator's
// apply.
func (w *world) editProbe() {
	w.Helper()
	d := w.deployment()
	d.Spec.Template.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/theirs", Port: intstr.FromInt32(8080)}}
	w.Expect(w.Update(w.Context(), d, client.FieldOwner("kubectl-edit"))).To(Succeed())
}

func (w *world) waitFieldConflict() {
	w.Helper()
	const container = `spec.template.spec.containers[app].readinessProbe.`
	want := "False/FieldConflict: Deployment " + w.NS + "/web: field " + container + `httpGet is set by field manager "kubectl-edit" and conflicts with ` +
		container + "tcpSocket, which AppService web declares; revert that change (kubectl edit deployment web -n " + w.NS +
		"), or let Holdfast revert it: kubectl annotate deployment web -n " + w.NS + " apps.holdfast.dev/take-ownership=true"
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(Equal(want))
	w.Expect(w.condition("Applied")()).To(Equal(want))
}

// TestFieldConflictIsReported keeps the field of the other manager, does not write the object until its user has undone
// the change, and continues with the other children.
func TestFieldConflictIsReported(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	before := w.deployment()
	w.editProbe()
	w.waitFieldConflict()
	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() { time.Sleep(quietPeriod) })
	w.Expect(len(calls)).To(BeNumerically("<=", 2), "reads in a conflict:\n%s", calls.Count())
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady", "FieldConflict"))

	calls = w.OperatorRequests(func() {
		edit(w, w.service(), func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9090) })
		w.Eventually(func() intstr.IntOrString { return w.service().Spec.Ports[0].TargetPort }, "60s", "20ms").ShouldNot(Equal(intstr.FromInt32(9090)))
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(Equal(1), "writes the Service, but not the Deployment:\n%s", calls.Count())

	calls = w.OperatorRequests(func() {
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Spec.Template = before.Spec.Template })
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(acceptedChildWrites(calls)).To(BeZero(), "%s", calls.Count())
	w.expectSteadyState()
}

// TestFieldConflictIsTakenOver removes the field of the other manager if the annotation permits it, with a single
// rollout, and without leaving an entry in managedFields.
func TestFieldConflictIsTakenOver(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	before := w.deployment()
	w.editProbe()
	w.waitFieldConflict()
	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() {
		edit(w, w.deployment(), func(d *appsv1.Deployment) { d.Annotations[appsapi.DefaultKeys.TakeOwnership] = "true" })
		w.waitReady()
		w.WaitIdle(w.name)
	})
	after := w.deployment()
	w.Expect(after.Spec.Template).To(Equal(before.Spec.Template))
	w.Expect(after.Generation).To(Equal(before.Generation+3), "the edit, the annotation and the apply")
	w.Expect(acceptedChildWrites(calls)).To(Equal(2), "managedFields and the fields:\n%s", calls.Count())
	for _, m := range after.ManagedFields {
		w.Expect(m.Manager).NotTo(Equal("kubectl-edit"), "its only field was removed")
	}
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady", "FieldConflict", "FieldsTakenOver", "DriftCorrected"))
	w.Expect(w.app().Status.Drift[0].Managers).To(Equal([]string{"kubectl-edit"}))

	// The annotation stays, so the next edit is reverted at once.
	w.editProbe()
	w.Eventually(func() *corev1.TCPSocketAction {
		return w.deployment().Spec.Template.Spec.Containers[0].ReadinessProbe.TCPSocket
	}, "60s", "20ms").ShouldNot(BeNil())
	w.expectSteadyState()
}

// TestProbeOfSpecIsReplaced changes the handler in the spec: the operator owns the old one, so one apply is sufficient.
func TestProbeOfSpecIsReplaced(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() {
		edit(w, &appsapi.AppService{ObjectMeta: w.objectMeta()}, func(a *appsapi.AppService) {
			a.Spec.Probes.Readiness = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(8080)}}}
		})
		w.waitReady()
		w.WaitIdle(w.name)
	})
	w.Expect(w.deployment().Spec.Template.Spec.Containers[0].ReadinessProbe.TCPSocket).To(BeNil())
	w.Expect(acceptedChildWrites(calls)).To(Equal(1), "%s", calls.Count())
	w.expectSteadyState()
}
