package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestJourneys tests the workflows of a developer with a service and with an AppStack, on real pods.
func TestJourneys(t *testing.T) {
	requireInstalled(t)
	for name, journey := range map[string]func(*testing.T, *WithT, string){
		"Stack": testStackLifecycle, "Sample": testSampleServes, "Rolling": testRollingUpdateLosesNoRequest, "BrokenImage": testBrokenImageIsReported,
		"Missing": testMissingReferencesAppear, "Kubectl": testKubectlCommands, "CloudManager": testCloudManagerLifecycle,
		"Plugin": testPluginVerbs, "Why": testBrokenDatabaseIsExplained, "Center": testCenterStream,
		"DatabasePage": testDatabasePage,
	} {
		t.Run(name, func(t *testing.T) {
			// Not in parallel: a kube-proxy that is starved of CPU for longer than the preStop sleep loses requests.
			if name != "Rolling" {
				t.Parallel()
			}
			ns := "e2e-" + strings.ToLower(name)
			kubectl(t, "create", "namespace", ns)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(kubectl(t, "-n", ns, "get", "holdfast,deployments,statefulsets,persistentvolumeclaims,pods,services,events", "-o", "wide"))
				}
				kubectl(t, "delete", "namespace", ns, "--wait=false")
			})
			journey(t, NewWithT(t), ns)
		})
	}
}

// appServiceManifest returns an AppService; extraSpec is YAML of its spec.
func appServiceManifest(name, image, extraSpec string) string {
	return fmt.Sprintf("apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppService\nmetadata: {name: %s}\nspec:\n  image: %s\n%s", name, image, extraSpec)
}

const twoReplicasOnPort80 = "  replicas: 2\n  ports: [{name: http, port: 80, targetPort: 8080}]\n"

func waitReady(t *testing.T, ns, name string) {
	t.Helper()
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "appservice/"+name, "--timeout=90s")
}

// readyCondition returns the Ready condition as "status reason message".
func readyCondition(t *testing.T, ns, name string) func() string {
	return func() string {
		return kubectl(t, "-n", ns, "get", "appservice", name, "-o",
			`jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.reason} {.message}{end}`)
	}
}

// startClientPod starts a pod that can call services.
func startClientPod(t *testing.T, ns string) {
	t.Helper()
	apply(t, ns, `{apiVersion: v1, kind: Pod, metadata: {name: client}, spec: {terminationGracePeriodSeconds: 0,
		containers: [{name: c, image: "busybox:1", command: [sleep, "600"]}]}}`)
	kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "pod/client", "--timeout=60s")
}

func execInClient(t *testing.T, ns, script string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "exec", "client", "--", "sh", "-c", script)
}

// testSampleServes applies config/samples and calls the service from another pod.
func testSampleServes(t *testing.T, g *WithT, ns string) {
	kubectl(t, "-n", ns, "apply", "-f", root+"/config/samples/appservice.yaml")
	startClientPod(t, ns)
	waitReady(t, ns, "web")
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- http://web/")).NotTo(BeEmpty())
	url := kubectl(t, "-n", ns, "get", "appservice", "web", "-o", "jsonpath={.status.endpoints[0].url}")
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- "+url)).NotTo(BeEmpty())

	kubectl(t, "-n", ns, "delete", "appservice", "web", "--timeout=60s")
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "deployments,replicasets,services,pods", "-l", "app.kubernetes.io/managed-by=holdfast", "-o", "name")
	}, "60s", "500ms").Should(BeEmpty(), "no objects are left after deletion")
}

// requestLoopScript counts requests and failures until /tmp/stop exists.
const requestLoopScript = `rm -f /tmp/stop; n=0; bad=0
while [ ! -e /tmp/stop ] || [ $n -lt 2000 ]; do
  timeout 5 wget -q -O /dev/null http://web/ || bad=$((bad+1)); n=$((n+1))
done; echo "$n requests, $bad failed"`

// testRollingUpdateLosesNoRequest changes the image under load.
func testRollingUpdateLosesNoRequest(t *testing.T, g *WithT, ns string) {
	apply(t, ns, appServiceManifest("web", "localhost/web:1", twoReplicasOnPort80))
	startClientPod(t, ns)
	waitReady(t, ns, "web")
	result := make(chan string, 1)
	go func() {
		out, err := tryKubectl("", "-n", ns, "exec", "client", "--", "sh", "-c", requestLoopScript)
		result <- out + fmt.Sprint(err)
	}()
	time.Sleep(time.Second) // the first requests must reach the old pods
	start := time.Now()
	apply(t, ns, appServiceManifest("web", webImage2, twoReplicasOnPort80))
	waitRolledOut(t, g, ns)
	t.Logf("rolled in %.1f s", time.Since(start).Seconds())
	time.Sleep(6 * time.Second) // the old pods terminate after their preStop sleep
	execInClient(t, ns, "touch /tmp/stop")
	var counted string
	g.Eventually(result, "60s").Should(Receive(&counted))
	t.Log(counted)
	g.Expect(counted).To(MatchRegexp(`^[0-9]{4,} requests, 0 failed<nil>$`))
}

// waitRolledOut waits until Ready reports the new image.
func waitRolledOut(t *testing.T, g *WithT, ns string) {
	t.Helper()
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "appservice", "web", "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {.status.conditions[?(@.type=="Ready")].status}`)
	}, "90s", "200ms").Should(Equal("2 2 True"))
}

// testBrokenImageIsReported sets a broken image, expects it in the status while the old pods serve, and fixes it.
func testBrokenImageIsReported(t *testing.T, g *WithT, ns string) {
	apply(t, ns, appServiceManifest("web", "localhost/web:1", twoReplicasOnPort80))
	startClientPod(t, ns)
	waitReady(t, ns, "web")
	apply(t, ns, appServiceManifest("web", "localhost/web:nope", twoReplicasOnPort80))
	g.Eventually(readyCondition(t, ns, "web"), "60s", "200ms").Should(MatchRegexp(`^False ComponentDegraded .*localhost/web:nope.* Pod web-`))
	t.Log(readyCondition(t, ns, "web")())
	for range 20 {
		execInClient(t, ns, "timeout 5 wget -q -O /dev/null http://web/")
	}
	apply(t, ns, appServiceManifest("web", "localhost/web:1", twoReplicasOnPort80))
	g.Eventually(readyCondition(t, ns, "web"), "60s", "200ms").Should(HavePrefix("True "))
	g.Expect(kubectl(t, "-n", ns, "get", "appservice", "web", "-o", "jsonpath={.status.causes}")).To(BeEmpty())
}

// testMissingReferencesAppear creates missing references; the operator continues without a change of the spec.
func testMissingReferencesAppear(t *testing.T, g *WithT, ns string) {
	cases := map[string]struct{ spec, want string }{
		"secret": {"  env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: absent, key: token}}}]\n", `Container app of Pod secret-.* needs Secret "absent", which does not exist in namespace ` + ns},
		"config": {"  envFrom: [{configMapRef: {name: absent}}]\n", `needs ConfigMap "absent", which does not exist in namespace ` + ns},
	}
	for name, tc := range cases {
		apply(t, ns, appServiceManifest(name, "localhost/web:1", tc.spec))
	}
	for name, tc := range cases {
		g.Eventually(readyCondition(t, ns, name), "90s", "500ms").Should(MatchRegexp("^False ComponentDegraded .*"+tc.want), name)
	}
	kubectl(t, "-n", ns, "create", "secret", "generic", "absent", "--from-literal=token=x")
	kubectl(t, "-n", ns, "create", "configmap", "absent", "--from-literal=token=x")
	waitReady(t, ns, "secret")
	waitReady(t, ns, "config")
}

// testKubectlCommands checks the output of common kubectl commands.
func testKubectlCommands(t *testing.T, g *WithT, ns string) {
	apply(t, ns, appServiceManifest("web", "localhost/web:1", twoReplicasOnPort80))
	waitReady(t, ns, "web")
	wide := kubectl(t, "-n", ns, "get", "appsvc", "-o", "wide")
	t.Log("\n" + wide)
	g.Expect(strings.Fields(strings.Split(wide, "\n")[0])).To(Equal([]string{"NAME", "READY", "REASON", "REPLICAS", "IMAGE", "AGE", "URL", "MESSAGE"}))
	g.Expect(wide).To(MatchRegexp(`web +True +Reconciled +2/2 +localhost/web:1 .* http://web\.%s\.svc:80 +Everything runs as declared`, ns))
	g.Expect(kubectl(t, "get", "holdfast", "-n", ns, "-o", "name")).To(Equal("appservice.apps.holdfast.dev/web"))
	g.Expect(kubectl(t, "explain", "appservice.spec.replicas")).To(ContainSubstring("replicas is the number of pods"))
	g.Expect(kubectl(t, "explain", "appservice.status.causes.message")).To(ContainSubstring("one sentence"))

	kubectl(t, "-n", ns, "scale", "appservice/web", "--replicas=3")
	kubectl(t, "-n", ns, "wait", "--for=jsonpath={.status.replicasReady}=3/3", "appservice/web", "--timeout=60s")
	waitReady(t, ns, "web")
	events := kubectl(t, "-n", ns, "events", "--for", "appservice/web")
	g.Expect(events).To(ContainSubstring("ComponentCreated"))
	g.Expect(events).To(ContainSubstring("ComponentReady"))
	describe := kubectl(t, "-n", ns, "describe", "appservice", "web")
	g.Expect(describe).To(ContainSubstring("ComponentCreated"), "kubectl describe shows the events")
}
