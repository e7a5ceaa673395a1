package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// testStackLifecycle tests an application of three programs, each of which answers 503 until its dependency answers.
func testStackLifecycle(t *testing.T, _ *WithT, ns string) {
	kubectl(t, "-n", ns, "create", "secret", "generic", "api", "--from-literal=token=first")
	startClientPod(t, ns)
	for _, step := range []struct {
		name string
		run  func(*testing.T, *WithT, string)
	}{
		{"ComesUpInOrder", testStackStartsInOrder}, {"SecretRollsItsUsers", testSecretChangeRollsOut},
		{"BrokenMiddle", testBrokenComponentHoldsDependents}, {"FrontIsRenamed", testRenamedComponent}, {"GoesInReverse", testStackDeletesInReverseOrder},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, NewWithT(t), ns) }) {
			return // each test continues from the state of the previous one
		}
	}
}

// componentManifest returns a component that listens on port 80.
func componentManifest(name, image, extraSpec string, args ...string) string {
	return fmt.Sprintf(`  - name: %s
%s    service:
      image: %s
      args: ["%s"]
      ports: [{port: 80, targetPort: 8080}]
      env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: api, key: token, optional: true}}}]
      config: {rollOnChange: %t}
      probes: {readiness: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
`, name, extraSpec, image, strings.Join(append([]string{"--healthy"}, args...), `", "`), name == "api")
}

// stackManifest returns the application with these images and this name of the front.
func stackManifest(api, front, frontName, frontExtra string) string {
	return "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  components:\n" +
		componentManifest(frontName, front, "    bindings: [{component: api}]\n"+frontExtra, "--needs=http://$(API_HOST):$(API_PORT)/healthz") +
		componentManifest("api", api, "    bindings: [{component: store}]\n", "--needs=http://$(STORE_HOST):$(STORE_PORT)/healthz") +
		componentManifest("store", "localhost/web:1", "", "--start-delay=2s")
}

// stackReadyCondition returns the Ready condition of the current generation as "status reason message".
func stackReadyCondition(t *testing.T, ns string) func() string {
	return func() string {
		out := kubectl(t, "-n", ns, "get", "appstack", "shop", "-o",
			`jsonpath={.metadata.generation} {.status.observedGeneration} {range .status.conditions[?(@.type=="Ready")]}{.status} {.reason} {.message}{end}`)
		generation, rest, _ := strings.Cut(out, " ")
		observed, condition, _ := strings.Cut(rest, " ")
		if generation != observed {
			return "status of an old generation"
		}
		return condition
	}
}

func waitStackReady(t *testing.T, g *WithT, ns string) {
	t.Helper()
	g.Eventually(stackReadyCondition(t, ns), "120s", "200ms").Should(Equal("True Reconciled Everything runs as declared"))
}

func testStackStartsInOrder(t *testing.T, g *WithT, ns string) {
	start := time.Now()
	apply(t, ns, stackManifest("localhost/web:1", "localhost/web:1", "web", ""))
	g.Eventually(stackReadyCondition(t, ns), "30s", "50ms").Should(HavePrefix("False WaitingForDependency Component "))
	waiting := stackReadyCondition(t, ns)()
	waitStackReady(t, g, ns)
	t.Logf("ready after %.1f s; meanwhile: %s", time.Since(start).Seconds(), waiting)
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- http://shop-web/")).To(HavePrefix("hello from shop-web-"))

	// A dependent is created after its dependency is ready; creation timestamps have a resolution of one second.
	createdAt := func(component string) string {
		return kubectl(t, "-n", ns, "get", "deployment", "shop-"+component, "-o", "jsonpath={.metadata.creationTimestamp}")
	}
	readyAt := func(component string) string {
		return kubectl(t, "-n", ns, "get", "pods", "-l", "apps.holdfast.dev/workload=deployment-shop-"+component, "-o",
			`jsonpath={.items[0].status.conditions[?(@.type=="Ready")].lastTransitionTime}`)
	}
	for _, edge := range [][2]string{{"store", "api"}, {"api", "web"}} {
		g.Expect(createdAt(edge[1]) >= readyAt(edge[0])).To(BeTrue(), "%s was created at %s, %s was ready at %s", edge[1], createdAt(edge[1]), edge[0], readyAt(edge[0]))
	}
	// No program had to wait for its dependency: no readiness probe failed.
	g.Expect(kubectl(t, "-n", ns, "get", "events", "--field-selector=reason=Unhealthy", "-o", "jsonpath={.items[*].message}")).NotTo(ContainSubstring("503"))
}

// podUIDs returns the UIDs of the pods of a component.
func podUIDs(t *testing.T, ns, component string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "get", "pods", "-l", "apps.holdfast.dev/workload=deployment-shop-"+component,
		"--field-selector=status.phase=Running", "-o", "jsonpath={.items[*].metadata.uid}")
}

// testSecretChangeRollsOut changes a Secret that all three components use but only api has rollOnChange.
func testSecretChangeRollsOut(t *testing.T, g *WithT, ns string) {
	web, api, store := podUIDs(t, ns, "web"), podUIDs(t, ns, "api"), podUIDs(t, ns, "store")
	token := func() string { return execInClient(t, ns, "timeout 5 wget -q -O- http://shop-api/env/TOKEN || true") }
	g.Expect(token()).To(Equal("first"))
	kubectl(t, "-n", ns, "patch", "secret", "api", "-p", `{"stringData":{"token":"second"}}`)
	g.Eventually(token, "60s", "200ms").Should(Equal("second"))
	waitStackReady(t, g, ns)
	g.Expect(podUIDs(t, ns, "api")).NotTo(Equal(api))
	g.Expect(podUIDs(t, ns, "web")).To(Equal(web), "web has no rollOnChange")
	g.Expect(podUIDs(t, ns, "store")).To(Equal(store), "store has no rollOnChange")
}

// testBrokenComponentHoldsDependents sets a missing image for api and a new image for its dependent.
func testBrokenComponentHoldsDependents(t *testing.T, g *WithT, ns string) {
	image := func() string {
		return kubectl(t, "-n", ns, "get", "deployment", "shop-web", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	}
	apply(t, ns, stackManifest("localhost/web:nope", webImage2, "web", ""))
	g.Eventually(stackReadyCondition(t, ns), "60s", "200ms").
		Should(MatchRegexp(`^False ComponentDegraded Component "api": .*localhost/web:nope.*; "web" waits for it$`))
	t.Log(stackReadyCondition(t, ns)())
	g.Expect(image()).To(Equal("localhost/web:1"), "web did not wait for api")
	g.Expect(execInClient(t, ns, "timeout 5 wget -q -O- http://shop-web/")).NotTo(BeEmpty(), "the old pods serve")
	apply(t, ns, stackManifest(webImage2, webImage2, "web", ""))
	waitStackReady(t, g, ns)
	g.Expect(image()).To(Equal(webImage2))
}

// renameRequestScript calls the old front by name until the new one answers. A request that the old front does not
// answer is lost, unless the new one already answers. The new front is called by address, because DNS servers cache for
// seconds that a name does not exist.
const renameRequestScript = `n=0; bad=0
new() { [ -s /tmp/new ] && timeout 2 wget -q -O /dev/null http://$(cat /tmp/new)/ 2>/dev/null; }
until new; do
  timeout 5 wget -q -O /dev/null http://%s/ || new || bad=$((bad+1)); n=$((n+1))
done; echo "$n requests, $bad lost"`

// verifyRenameLosesNoRequest renames a front under load and expects no lost requests.
func verifyRenameLosesNoRequest(t *testing.T, g *WithT, ns, from, to string, rename func()) {
	t.Helper()
	result := make(chan string, 1)
	go func() {
		out, err := tryKubectl("", "-n", ns, "exec", "client", "--", "sh", "-c", fmt.Sprintf(renameRequestScript, from))
		result <- out + fmt.Sprint(err)
	}()
	time.Sleep(500 * time.Millisecond) // the first requests must reach the old front only
	rename()
	var address string
	g.Eventually(func() error {
		var err error
		address, err = tryKubectl("", "-n", ns, "get", "service", to, "-o", "jsonpath={.spec.clusterIP}")
		return err
	}, "30s", "50ms").Should(Succeed())
	execInClient(t, ns, "echo "+address+" > /tmp/new")
	var counted string
	g.Eventually(result, "120s").Should(Receive(&counted))
	t.Log(counted)
	// The shell prints Terminated if the old front accepts a request and does not answer it.
	g.Expect(counted).To(MatchRegexp(`^(Terminated\n)*[0-9]+ requests, 0 lost<nil>$`))
}

func testRenamedComponent(t *testing.T, g *WithT, ns string) {
	verifyRenameLosesNoRequest(t, g, ns, "shop-web", "shop-front", func() {
		apply(t, ns, stackManifest(webImage2, webImage2, "front", "    renamedFrom: web\n"))
	})
	waitStackReady(t, g, ns)
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "deployments,services", "-l", "app.kubernetes.io/component=web", "-o", "name")
	}, "60s", "200ms").Should(BeEmpty(), "old objects are deleted")
	g.Expect(kubectl(t, "-n", ns, "get", "appstack", "shop", "-o", "jsonpath={.status.componentsReady} {.status.currentRevision} {.status.healthyRevision}")).
		To(Equal("3/3 4 4"))
}

// testStackDeletesInReverseOrder checks that dependents are deleted first, each after its pods terminated.
func testStackDeletesInReverseOrder(t *testing.T, g *WithT, ns string) {
	deleted := make(chan error, 1)
	go func() {
		_, err := tryKubectl("", "-n", ns, "delete", "appstack", "shop", "--timeout=110s")
		deleted <- err
	}()
	var remaining []string
	for {
		select {
		case err := <-deleted:
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(remaining).To(Equal([]string{"api front store", "api store", "store", ""}[:len(remaining)]))
			g.Eventually(func() string {
				return kubectl(t, "-n", ns, "get", "all,controllerrevisions", "-l", "app.kubernetes.io/managed-by=holdfast", "-o", "name")
			}, "60s", "500ms").Should(BeEmpty(), "no objects are left after deletion")
			return
		default:
		}
		now := kubectl(t, "-n", ns, "get", "deployments", "-o", `jsonpath={.items[*].metadata.labels.app\.kubernetes\.io/component}`)
		if len(remaining) == 0 || remaining[len(remaining)-1] != now {
			remaining = append(remaining, now)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
