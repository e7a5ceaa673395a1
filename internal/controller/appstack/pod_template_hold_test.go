package appstack_test

import (
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// holdSpec is a stack in which the pod template of api is held, with its Deployment and its Service.
const holdSpec = `
components:
- {name: db, service: {image: "shop/db:1", ports: [{port: 5432}]}}
- {name: api, bindings: [{component: db}], service: {image: "shop/api:1", replicas: 2, ports: [{port: 80, targetPort: 8080}]}}
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1"}}
`

// testPodTemplateHold holds the pod template of api while its dependency is not ready: its pods do not change, all other
// fields are updated and corrected, and fields of other managers in its pod template stay. When the dependency is ready,
// the last spec is applied.
func (p *watchedWorld) testPodTemplateHold() {
	p.create(holdSpec)
	p.waitReady()
	p.applyForeignContainers("mesh", `[{"name":"mesh","image":"mesh/proxy:1"}]`)
	p.Expect(p.apiContainers()).To(Equal("app=shop/api:1 mesh=mesh/proxy:1"))
	p.waitReady()
	p.editSpec(func(s *appsapi.AppStackSpec) {
		setImage(componentOf(s, "db"), "shop/db:2-missing")
		setImage(componentOf(s, "api"), "shop/api:2")
	})
	p.Eventually(func() string { return imageOfDeployment(p.deployment("shop-db")) }, "60s").Should(Equal("shop/db:2-missing"))
	held := p.deployment("shop-api").Spec.Template

	p.scaleAPI(4)
	p.changeAPIService()
	p.expectDriftRepaired()
	p.Expect(p.deployment("shop-api").Spec.Template).To(Equal(held), "the pod template is held")

	// The operator did not take over the fields of the other manager, which can change them without force.
	p.applyForeignContainers("mesh", `[{"name":"mesh","image":"mesh/proxy:2"}]`)
	p.applyForeignContainers("trace", `[{"name":"trace","image":"trace/agent:1"},{"name":"app","env":[{"name":"TRACE","value":"on"}]}]`)
	p.Expect(p.apiContainers()).To(Equal("app=shop/api:1 mesh=mesh/proxy:2 trace=trace/agent:1"))
	held = p.deployment("shop-api").Spec.Template
	p.scaleAPI(3)
	p.editComponent("api", func(c *appsapi.Component) { setImage(c, "shop/api:3") })

	p.Expect(p.Operator.Kill()).To(Succeed())
	p.Expect(p.Operator.Start()).To(Succeed())
	p.Expect(p.Operator.WaitReady(p.Context())).To(Succeed())
	p.scaleAPI(5)
	p.Expect(p.deployment("shop-api").Spec.Template).To(Equal(held), "the pod template is held")
	p.Eventually(p.condition("Ready"), "60s").Should(HavePrefix(`False/ComponentDegraded: Component "db": `))
	p.Expect(p.condition("Ready")()).To(HaveSuffix(`; "api" waits for it`))

	p.releaseHold()
}

// releaseHold makes the dependency of api ready.
func (p *watchedWorld) releaseHold() {
	p.editComponent("db", func(c *appsapi.Component) { setImage(c, "shop/db:3") })
	p.waitReady()
	d := p.deployment("shop-api")
	p.Expect(p.apiContainers()).To(Equal("app=shop/api:3 mesh=mesh/proxy:2 trace=trace/agent:1"))
	p.Expect(*d.Spec.Replicas).To(BeEquivalentTo(5))
	app := d.Spec.Template.Spec.Containers[slices.IndexFunc(d.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return c.Name == "app" })]
	p.Expect(app.Env).To(ContainElement(corev1.EnvVar{Name: "TRACE", Value: "on"}))

	f, err := p.timeline("shop")
	p.fatal(err)
	requests, err := p.AuditLog.Since(p.Context(), p.Plane.Config, 0)
	p.fatal(err)
	checker := newAuditCheck(requests.In(p.NS))
	ready, ok := f.readyBefore(componentOf(&p.stack().Spec, "db"), 1<<62)
	p.Expect(ok).To(BeTrue())
	var operatorRollouts []string
	for _, t := range f.rollouts() {
		if t.component != "db" && checker[t.version].User.Username == operator.User {
			operatorRollouts = append(operatorRollouts, fmt.Sprintf("%s %t", t.podSummary, t.version > ready.version))
		}
	}
	p.Expect(operatorRollouts).To(ConsistOf("shop/api:1 DB_HOST false", "shop/web:1 API_HOST false", "shop/api:3 DB_HOST true", "shop/web:1 API_HOST true"),
		"each was created once, and changed once after the database was ready")

	// The other manager can also remove its fields.
	p.applyForeignContainers("mesh", `[]`)
	p.Expect(p.apiContainers()).To(Equal("app=shop/api:3 trace=trace/agent:1"))
	p.waitReady()
	p.expectSteadyState()
}

// applyForeignContainers changes the containers of api as another manager, with server-side apply.
func (p *watchedWorld) applyForeignContainers(manager, containers string) {
	p.Helper()
	body := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"shop-api","namespace":%q},"spec":{"template":{"spec":{"containers":%s}}}}`, p.NS, containers)
	d := &appsv1.Deployment{ObjectMeta: p.objectMeta("shop-api")}
	p.Expect(p.Patch(p.Context(), d, client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner(manager))).To(Succeed())
	p.Eventually(func() bool {
		now := p.deployment("shop-api").Status
		return now.ObservedGeneration >= d.Generation && now.UpdatedReplicas == *d.Spec.Replicas && now.Replicas == *d.Spec.Replicas
	}, "60s", "20ms").Should(BeTrue())
}

// apiContainers returns the containers of api with their images.
func (p *watchedWorld) apiContainers() string {
	var out []string
	for _, c := range p.deployment("shop-api").Spec.Template.Spec.Containers {
		out = append(out, c.Name+"="+c.Image)
	}
	slices.Sort(out)
	return fmt.Sprint(out)[1 : len(fmt.Sprint(out))-1]
}

func imageOfDeployment(d *appsv1.Deployment) string {
	return d.Spec.Template.Spec.Containers[0].Image
}

func (p *watchedWorld) scaleAPI(to int32) {
	p.Helper()
	p.editComponent("api", func(c *appsapi.Component) { c.Service.Replicas = &to })
	p.Eventually(func() int32 { return *p.deployment("shop-api").Spec.Replicas }, "10s", "20ms").Should(Equal(to))
	p.Eventually(func() int32 { return p.deployment("shop-api").Status.ReadyReplicas }, "60s", "20ms").Should(Equal(to))
}

// changeAPIService changes the port and an annotation of the Service of api. Bound components do not roll out before api
// is ready.
func (p *watchedWorld) changeAPIService() {
	p.Helper()
	web := p.deployment("shop-web").Spec.Template
	p.editComponent("api", func(c *appsapi.Component) {
		c.Service.Ports[0].Port = 81
		c.Service.Service.Annotations = map[string]appsapi.AnnotationValue{"example.com/team": "red"}
	})
	p.Eventually(func() string {
		s := p.service("shop-api")
		return fmt.Sprintf("%d: %d to %d, team %s", len(s.Spec.Ports), s.Spec.Ports[0].Port, s.Spec.Ports[0].TargetPort.IntVal, s.Annotations["example.com/team"])
	}, "10s", "20ms").Should(Equal("1: 81 to 8080, team red"))
	p.Consistently(func() corev1.PodTemplateSpec { return p.deployment("shop-web").Spec.Template }, "300ms", "50ms").Should(Equal(web))
}

// expectDriftRepaired changes fields of the operator: they are corrected, also while the pod template is held.
func (p *watchedWorld) expectDriftRepaired() {
	p.Helper()
	for _, drift := range []struct {
		child    client.Object
		patch    string
		repaired func() bool
	}{
		{p.deployment("shop-api"), `{"spec":{"replicas":1}}`, func() bool { return *p.deployment("shop-api").Spec.Replicas == 4 }},
		{p.deployment("shop-api"), `{"metadata":{"labels":{"app.kubernetes.io/part-of":"theirs"}}}`,
			func() bool { return p.deployment("shop-api").Labels["app.kubernetes.io/part-of"] == "shop" }},
		{p.service("shop-api"), `{"spec":{"selector":{"theirs":"too"}}}`, func() bool { return p.service("shop-api").Spec.Selector["theirs"] == "" }},
	} {
		p.Expect(p.Patch(p.Context(), drift.child, client.RawPatch(types.MergePatchType, []byte(drift.patch)), client.FieldOwner("theirs"))).To(Succeed())
		p.Eventually(drift.repaired, "10s", "20ms").Should(BeTrue(), drift.patch)
	}
}
