package appstack_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

// childWrites returns the writes to anything except the status and the events of the stack.
func childWrites(calls audit.Events) audit.Events {
	return withoutEvents(calls).Writes().Where(func(e *audit.Event) bool { return e.Resource() != "appstacks.apps.holdfast.dev/status" })
}

// TestSuspendComponent suspends a component and changes all of it: it is not written, and other components are.
func TestSuspendComponent(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	w.editOperations("lone", func(o *appsapi.ComponentOperations) { o.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(Equal("True/Reconciled: Everything runs as declared; suspended: 1 of 3 components"))
	w.WaitIdle("shop")
	calls := w.OperatorRequests(func() {
		w.editComponent("lone", func(c *appsapi.Component) { c.Service.Image, c.Service.Ports = "shop/lone:2", nil })
		d := w.deployment("shop-lone")
		w.Expect(w.Patch(w.Context(), d, client.MergeFrom(&appsv1.Deployment{}))).To(Succeed())
		harness.Edit(w.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:2" })
		w.Eventually(func() string { return w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"] }, "60s", "50ms").Should(Equal("2"))
		w.Eventually(w.condition("Ready"), "60s", "50ms").Should(Equal(
			`False/Suspended: Component "lone" is suspended: Spec changes are pending; resume to apply them`))
		w.WaitIdle("shop")
	})
	w.Expect(deletedObjects(calls)).To(BeEmpty())
	w.Expect(writtenNames(calls, "services")).To(BeEmpty())
	w.Expect(writtenNames(calls, "deployments.apps")).To(Equal([]string{"shop-api"}), "%s", calls.Count())
	w.Expect(w.service("shop-lone")).NotTo(BeNil())
	w.Expect(*w.deployment("shop-lone").Spec.Replicas).To(BeEquivalentTo(3))

	w.editOperations("lone", func(o *appsapi.ComponentOperations) { o.Suspend = false })
	w.waitReady()
	w.Expect(w.service("shop-lone")).To(BeNil())
	w.Expect(w.deployment("shop-lone").Spec.Template.Spec.Containers[0].Image).To(Equal("shop/lone:2"))
	w.expectSteadyState()
}

// TestSuspendStack suspends the stack and changes all of it: nothing is written.
func TestSuspendStack(t *testing.T) {
	w := newStory(t)
	w.setConfigMap("a", "1")
	w.create(`
components:
- {name: web, service: {image: "shop/web:1", ports: [{port: 80}], env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]}}
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: lone, service: {image: "shop/lone:1", ports: [{port: 80}]}}
`)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("True/Suspended: Suspended: running unchanged"))
	w.WaitIdle("shop")
	calls := w.OperatorRequests(func() {
		w.removeComponents("lone")
		w.Eventually(w.condition("Ready"), "10s", "50ms").Should(HavePrefix("False/Suspended: "), "a removal is a pending change, too")
		w.setWebTag("2")
		w.setJobImage("shop/migrate:2")
		w.editComponent("web", func(c *appsapi.Component) { c.Service.Ports = nil })
		w.editSpec(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(1)) })
		w.setConfigMap("a", "2")
		harness.Edit(w.World, w.deployment("shop-web"), func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		job := w.jobs("migrate")[0]
		w.Expect(w.Delete(w.Context(), &job, client.PropagationPolicy("Background"))).To(Succeed())
		w.WaitIdle("shop")
	})
	w.Expect(len(childWrites(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.condition("Ready")()).To(HavePrefix("False/Suspended: "))
	w.Expect(w.condition("Reconciling")()).To(Equal("none"))
	w.Expect(w.exists("shop-lone")).To(BeTrue())
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h"}))

	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.waitReady()
	w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
	w.waitReady()
	w.Expect(w.service("shop-web")).To(BeNil())
	w.Expect(w.jobs("migrate")).To(HaveLen(1))
	w.Expect(w.deploymentRevisions()).To(Equal(map[string]string{"shop-web": "2"}), "all changes are applied in one rollout")
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"2h"}))
	w.expectSteadyState()
}

// TestSuspendDuringRollout suspends a stack that is not ready yet: readiness is still reported, and recorded in the
// revision after it is resumed.
func TestSuspendDuringRollout(t *testing.T) {
	w := newStory(t)
	w.create(`components: [{name: web, service: {image: "shop/web:late"}}]`)
	w.Eventually(func() *appsv1.Deployment { return w.deployment("shop-web") }, "60s", "10ms").ShouldNot(BeNil())
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "10ms").Should(HavePrefix(`False/Suspended: Deployment ` + w.NS + `/shop-web waits for its pods to become ready; while suspended`))
	calls := w.OperatorRequests(func() {
		w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("True/Suspended"))
		w.WaitIdle("shop")
	})
	w.Expect(len(childWrites(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1"}))
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.waitReady()
	w.Eventually(w.revisionNumbers, "60s", "50ms").Should(Equal([]string{"1h"}))
	w.waitRevisions("1", "1")
	w.expectSteadyState()
}

func TestCreatedSuspended(t *testing.T) {
	w := newStory(t)
	calls := w.OperatorRequests(func() {
		w.create("suspend: true" + boundSpec)
		w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/Suspended: "))
		w.WaitIdle("shop")
	})
	w.Expect(len(childWrites(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.stack().Finalizers).To(BeEmpty())
	w.Expect(w.stack().Status.CurrentRevision).To(BeEmpty())
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.waitReady()
	w.expectSteadyState()
}

// TestSuspendedDependency suspends a dependency: its current state is sufficient for its dependents.
func TestSuspendedDependency(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	w.editOperations("api", func(o *appsapi.ComponentOperations) { o.Suspend = true })
	w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:2" })
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.Eventually(func() string { return w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"] }, "60s", "50ms").Should(Equal("2"))
	w.Expect(w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"]).To(Equal("1"))
	// Dependents wait for a deleted one, which is not recreated while suspended.
	w.Expect(w.Delete(w.Context(), w.deployment("shop-api"))).To(Succeed())
	w.setWebTag("3")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(`False/WaitingForDependency: Component "web" waits for "api": `))
	w.Expect(w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"]).To(Equal("2"))
	w.editOperations("api", func(o *appsapi.ComponentOperations) { o.Suspend = false })
	w.waitReady()
	w.expectSteadyState()
}
