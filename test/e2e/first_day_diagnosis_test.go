package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// healthyForeignObjects explains objects that Holdfast does not manage.
func healthyForeignObjects(d firstDay) {
	for _, object := range []string{"deployment/coredns", "service/kube-dns"} {
		out, code := runPlugin(d.T, "kube-system", "", "why", object)
		d.Expect(code).To(BeZero(), out)
		d.Expect(out).To(MatchRegexp(`kube-system/\S+ +READY`))
	}
}

// foreignChildName creates a Deployment with the name of a child first.
func foreignChildName(d firstDay) {
	d.kubectl("create", "deployment", "shop-web", "--image=localhost/web:1")
	d.applyStack(webComponent("web", ""))
	d.eventually("30s", []string{"why", "shop"}, `Deployment .*shop-web exists and is not managed by Holdfast`)
	out, _ := runPlugin(d.T, d.ns, "", "why", "shop")
	d.Expect(out).NotTo(ContainSubstring("does not exist"))
	d.Expect(strings.Count(out, "exists and is not managed")).To(Equal(1), out)
}

// crashingDependency has no port and no probe, and crashes at once: its dependents must not start.
func crashingDependency(d firstDay) {
	d.applyStack(`{name: base, service: {image: "localhost/web:1", args: ["--crash-after=1s"]}}`, webComponent("web", ", dependsOn: [base]"))
	d.eventually("60s", []string{"why", "shop"}, `web waits for base`, `base`)
	for range 20 { // while it crashes and restarts
		d.Expect(d.kubectl("get", "deployments", "-o", "jsonpath={.items[*].metadata.name}")).To(Equal("shop-base"))
		time.Sleep(500 * time.Millisecond)
	}
}

// wrongPort declares a port on which the program does not listen.
func wrongPort(d firstDay) {
	d.applyStack(`{name: web, service: {image: "localhost/web:1", args: ["--healthy"], ports: [{port: 80}]}}`)
	d.eventually("60s", []string{"why", "shop"}, `(?i)nothing listens on port 80|port 80`, `fix: .*components\[web\].service.ports|targetPort`)
	out, _ := runPlugin(d.T, d.ns, "", "why", "shop")
	d.Expect(out).NotTo(ContainSubstring("probes.readiness"), "the user did not write a probe")
}

// invalidComponent has an error that the schema does not find.
func invalidComponent(d firstDay) {
	d.applyStack(webComponent("web", ""),
		`{name: api, service: {image: "localhost/web:1", resources: {requests: {cpu: "2"}, limits: {cpu: "1"}}}}`)
	d.eventually("30s", []string{"why", "shop"}, `InvalidSpec|invalid`, `api`)
	out, _ := runPlugin(d.T, d.ns, "", "why", "shop")
	d.Expect(out).NotTo(ContainSubstring("does not exist"))
}

// missingReplica deletes a ConfigMap and one of two pods that use it.
func missingReplica(d firstDay) {
	d.kubectl("create", "configmap", "settings", "--from-literal=a=b")
	d.apply(appServiceManifest("site", "localhost/web:1",
		"  args: [\"--healthy\"]\n  replicas: 2\n  ports: [{port: 80, targetPort: 8080}]\n  envFrom: [{configMapRef: {name: settings}}]\n"))
	waitReady(d.T, d.ns, "site")
	d.kubectl("delete", "configmap", "settings")
	pods := strings.Fields(d.kubectl("get", "pods", "-l", "app.kubernetes.io/instance=site", "-o", "name"))
	d.kubectl("delete", pods[0])
	d.Eventually(func() string { return d.kubectl("get", "appservice", "site", "--no-headers") }, "30s", "300ms").
		Should(And(ContainSubstring("False"), ContainSubstring("1/2")))
	d.eventually("30s", []string{"why", "site"}, "settings", "1/2")
}

// noMetricsServer has an autoscaler without metrics.
func noMetricsServer(d firstDay) {
	d.apply(appServiceManifest("site", "localhost/web:1",
		"  args: [\"--healthy\"]\n  ports: [{port: 80, targetPort: 8080}]\n  autoscaling: {minReplicas: 1, maxReplicas: 3, targetCPUUtilization: 60}\n"))
	d.eventually("90s", []string{"why", "site", "--all"}, `AutoscalerMetricsMissing`)
}

// missingIngressClass exposes a service through a class that does not exist.
func missingIngressClass(d firstDay) {
	d.apply(appServiceManifest("site", "localhost/web:1",
		"  args: [\"--healthy\"]\n  ports: [{port: 80, targetPort: 8080}]\n  expose: {hostnames: [site.example.com], ingressClassName: nope}\n"))
	d.eventually("90s", []string{"why", "site", "--all"}, `IngressClass "nope", which does not exist`)
}

// suspendedApplication must name the command that resumes it.
func suspendedApplication(d firstDay) {
	d.applyStack(webComponent("web", ""))
	d.waitReady()
	d.plugin(0, "suspend", "shop")
	d.eventually("30s", []string{"why", "shop"}, `kubectl holdfast resume`)
}

// fixNamesField expects the path of the field in the spec that the user wrote.
func fixNamesField(d firstDay) {
	d.applyStack(strings.Replace(webComponent("api", ""), "localhost/web:1", "localhost/nope:1", 1))
	d.eventually("60s", []string{"why", "shop"}, `spec\.components\[api\]\.service\.image`)
}

// driftIsReported changes a child behind the back of the operator.
func driftIsReported(d firstDay) {
	d.applyStack(webComponent("web", ""))
	d.waitReady()
	d.kubectl("set", "image", "deployment/shop-web", "app=localhost/nope:1")
	d.eventually("30s", []string{"drift", "shop"}, `Deployment[ /]shop-web +.*image +localhost/nope:1 +localhost/web:1 +kubectl-set`)
	d.Eventually(func() string {
		return d.kubectl("get", "events", "--field-selector=reason=DriftCorrected", "-o", "jsonpath={.items[*].message}")
	}, "20s", "300ms").
		Should(And(ContainSubstring("localhost/nope:1"), ContainSubstring("kubectl-set")))
	d.waitReady()
}

// eventsNameTheirTrigger edits a Secret whose change replaces pods.
func eventsNameTheirTrigger(d firstDay) {
	d.kubectl("create", "secret", "generic", "settings", "--from-literal=a=b")
	d.applyStack(`{name: web, service: {image: "localhost/web:1", args: ["--healthy"], envFrom: [{secretRef: {name: settings}}]}}`)
	d.waitReady()
	d.kubectl("patch", "secret", "settings", "-p", `{"stringData": {"a": "c"}}`)
	d.Eventually(func() string { return d.kubectl("get", "events", "-o", "jsonpath={.items[*].message}") }, "30s", "300ms").
		Should(MatchRegexp(`Deployment shop-web[^.]*Secret settings`))
}

// operatorIsDown scales the operator to zero: the plugin must report that instead of blaming the application.
func operatorIsDown(t *testing.T) {
	d := firstDay{T: t, WithT: NewWithT(t), ns: "day-down"}
	kubectl(t, "create", "namespace", d.ns)
	kubectl(t, "-n", "holdfast-system", "scale", "deployment/holdfast-operator", "--replicas=0")
	t.Cleanup(func() {
		kubectl(t, "-n", "holdfast-system", "scale", "deployment/holdfast-operator", "--replicas=2")
		kubectl(t, "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-operator", "--timeout=60s")
		kubectl(t, "delete", "namespace", d.ns, "--wait=false")
	})
	d.applyStack(webComponent("web", ""))
	d.eventually("60s", []string{"why", "shop"}, `(?i)no operator|operator is not running|doctor`)
	out, _ := runPlugin(t, d.ns, "", "doctor")
	d.Expect(out).To(MatchRegexp(`(?i)operator +(FAIL|ERROR|WARN|MISSING)`))
}
