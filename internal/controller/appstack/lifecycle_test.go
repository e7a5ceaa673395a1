package appstack_test

import (
	"testing"

	. "github.com/onsi/gomega"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// shop is a stack of three services and a job: migrate, api and web in order, and an independent one.
const shop = `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80, targetPort: 8080}]}}
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: lone, service: {image: "shop/lone:1"}}
`

// A pod without a probe is ready for a moment before its program crashes.
func TestDependentsWaitForCrashingDependencyWithoutProbe(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- {name: worker, service: {image: "shop/worker:crash"}}
- {name: web, dependsOn: [worker], service: {image: "shop/web:1"}}
`)
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	w.Consistently(func() any { return w.deployment("shop-web") }, "6s", "100ms").Should(BeNil(), "web does not start")
	w.editComponent("worker", func(c *appsapi.Component) { c.Service.Image = "shop/worker:1" })
	w.waitReady()
	w.Expect(w.deployment("shop-worker").Spec.MinReadySeconds).To(BeEquivalentTo(5))
	w.expectSteadyState()
}

func TestStackIsCreatedAndEdited(t *testing.T) {
	w := newStory(t)
	w.create(shop)
	w.waitReady()
	w.expectSteadyState()
	s := w.stack().Status
	w.Expect(s.ComponentsReady).To(Equal("4/4"))
	w.Expect(s.CurrentRevision).To(Equal("1"))
	w.Expect(s.HealthyRevision).To(Equal("1"))
	w.Expect(w.jobs("migrate")).To(HaveLen(1))
	w.editComponent("api", func(c *appsapi.Component) { c.Service.Image = "shop/api:2" })
	w.waitReady()
	w.expectSteadyState()
	s = w.stack().Status
	w.Expect(s.CurrentRevision).To(Equal("2"))
	w.Expect(s.HealthyRevision).To(Equal("2"))
	w.Expect(w.jobs("migrate")).To(HaveLen(1), "the job does not run again without a change of its spec")
}
