package appstack_test

import (
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func init() {
	behaviors["late"] = podsim.Slow(6 * time.Second)

	stories["suspend: one component"] = suspendOne
	stories["suspend: everything"] = suspendAll
	stories["suspend: everything, while it comes up"] = suspendOnTheWay
	stories["suspend: from the beginning"] = suspendedAtBirth
	stories["suspend: a component that others wait for"] = suspendedDependency
}

// children are the writes to anything but the status and the events of the stack.
func children(calls audit.Events) audit.Events {
	return deeds(calls).Writes().Where(func(e *audit.Event) bool { return e.Resource() != "appstacks.apps.holdfast.dev/status" })
}

// suspendOne suspends a component and changes everything about it: nothing of it is
// written, and others go on.
func suspendOne(w *world) {
	w.create(bound)
	w.becomesReady()
	w.editComponent("lone", func(c *appsapi.Component) { c.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(Equal("True/Reconciled: Everything runs as declared; suspended: 1 of 3 components"))
	w.FallsSilent("shop")
	calls := w.Calls(func() {
		w.editComponent("lone", func(c *appsapi.Component) { c.Service.Image, c.Service.Ports = "shop/lone:2", nil })
		d := w.deployment("shop-lone")
		w.Expect(w.Patch(w.Context(), d, client.MergeFrom(&appsv1.Deployment{}))).To(Succeed())
		stage.Edit(w.World, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(3)) })
		w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:2" })
		w.Eventually(func() string { return w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"] }, "60s", "50ms").Should(Equal("2"))
		w.Eventually(w.condition("Ready"), "60s", "50ms").Should(Equal(
			`False/Suspended: Component "lone" is suspended: Changes of the spec wait until it is no longer suspended`))
		w.FallsSilent("shop")
	})
	w.Expect(deleted(calls)).To(BeEmpty())
	w.Expect(written(calls, "services")).To(BeEmpty())
	w.Expect(written(calls, "deployments.apps")).To(Equal([]string{"shop-api"}), "%s", calls.Count())
	w.Expect(w.service("shop-lone")).NotTo(BeNil())
	w.Expect(*w.deployment("shop-lone").Spec.Replicas).To(BeEquivalentTo(3))

	w.editComponent("lone", func(c *appsapi.Component) { c.Suspend = false })
	w.becomesReady()
	w.Expect(w.service("shop-lone")).To(BeNil())
	w.Expect(w.deployment("shop-lone").Spec.Template.Spec.Containers[0].Image).To(Equal("shop/lone:2"))
	w.settles()
}

// suspendAll suspends the stack and changes everything: nothing at all is written.
func suspendAll(w *world) {
	w.configMap("a", "1")
	w.create(`
components:
- {name: web, service: {image: "shop/web:1", ports: [{port: 80}], env: [{name: A, valueFrom: {configMapKeyRef: {name: settings, key: a}}}]}}
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: lone, service: {image: "shop/lone:1", ports: [{port: 80}]}}
`)
	w.becomesReady()
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("True/Suspended: Runs on as it is"))
	w.FallsSilent("shop")
	calls := w.Calls(func() {
		w.removes("lone")
		w.Eventually(w.condition("Ready"), "10s", "50ms").Should(HavePrefix("False/Suspended: "), "a removal is a change too")
		w.setWeb("2")
		w.setJob("shop/migrate:2")
		w.editComponent("web", func(c *appsapi.Component) { c.Service.Ports = nil })
		w.edit(func(s *appsapi.AppStackSpec) { s.RevisionHistoryLimit = new(int32(1)) })
		w.configMap("a", "2")
		stage.Edit(w.World, w.deployment("shop-web"), func(d *appsv1.Deployment) { d.OwnerReferences = nil })
		job := w.jobs("migrate")[0]
		w.Expect(w.Delete(w.Context(), &job, client.PropagationPolicy("Background"))).To(Succeed())
		time.Sleep(500 * time.Millisecond)
		w.FallsSilent("shop")
	})
	w.Expect(len(children(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.condition("Ready")()).To(HavePrefix("False/Suspended: "))
	w.Expect(w.condition("Reconciling")()).To(Equal("none"))
	w.Expect(w.exists("shop-lone")).To(BeTrue())
	w.Expect(w.numbers()).To(Equal([]string{"1h"}))

	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.becomesReady()
	w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
	w.becomesReady()
	w.Expect(w.service("shop-web")).To(BeNil())
	w.Expect(w.jobs("migrate")).To(HaveLen(1))
	w.Expect(w.rolls()).To(Equal(map[string]string{"shop-web": "2"}), "all of it is one rollout")
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"2h"}))
	w.settles()
}

// suspendOnTheWay suspends a stack that is not ready yet: its becoming ready is seen, and
// is noted down when hands are on again.
func suspendOnTheWay(w *world) {
	w.create(`components: [{name: web, service: {image: "shop/web:late"}}]`)
	w.Eventually(func() *appsv1.Deployment { return w.deployment("shop-web") }, "60s", "10ms").ShouldNot(BeNil())
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s", "10ms").Should(HavePrefix(`False/Suspended: Deployment ` + w.NS + `/shop-web waits for its pods to become ready; while suspended`))
	calls := w.Calls(func() {
		w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("True/Suspended"))
		w.FallsSilent("shop")
	})
	w.Expect(len(children(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.numbers()).To(Equal([]string{"1"}))
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.becomesReady()
	w.Eventually(w.numbers, "60s", "50ms").Should(Equal([]string{"1h"}))
	w.showsRevisions("1", "1")
	w.settles()
}

func suspendedAtBirth(w *world) {
	calls := w.Calls(func() {
		w.create("suspend: true" + bound)
		w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/Suspended: "))
		w.FallsSilent("shop")
	})
	w.Expect(len(children(calls))).To(BeZero(), "%s", calls.Writes().Count())
	w.Expect(w.stack().Finalizers).To(BeEmpty())
	w.Expect(w.stack().Status.CurrentRevision).To(BeEmpty())
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.becomesReady()
	w.settles()
}

// suspendedDependency suspends what others wait for: as it is it is good enough for them.
func suspendedDependency(w *world) {
	w.create(bound)
	w.becomesReady()
	w.editComponent("api", func(c *appsapi.Component) { c.Suspend, c.Service.Image = true, "shop/api:2" })
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.Eventually(func() string { return w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"] }, "60s", "50ms").Should(Equal("2"))
	w.Expect(w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"]).To(Equal("1"))
	// One that goes is waited for: nobody may bring it back.
	w.Expect(w.Delete(w.Context(), w.deployment("shop-api"))).To(Succeed())
	w.setWeb("3")
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(`False/WaitingForDependency: Component "web" waits for "api": `))
	w.Expect(w.deployment("shop-web").Annotations["deployment.kubernetes.io/revision"]).To(Equal("2"))
	w.editComponent("api", func(c *appsapi.Component) { c.Suspend = false })
	w.becomesReady()
	w.settles()
}
