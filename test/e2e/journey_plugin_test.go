package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// runPlugin runs kubectl holdfast and returns its output and exit code.
func runPlugin(t *testing.T, ns, input string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "k8s", "kubectl"), append([]string{"holdfast", "-n", ns}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+bin+":"+os.Getenv("PATH"))
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// testPluginVerbs runs every command on real pods.
func testPluginVerbs(t *testing.T, g *WithT, ns string) {
	expect := func(code int, want string, args ...string) string {
		t.Helper()
		out, got := runPlugin(t, ns, "", args...)
		g.Expect(got).To(Equal(code), "%s: %s", args, out)
		g.Expect(out).To(MatchRegexp(want), "%s", args)
		return out
	}
	next := stackManifest("localhost/web:2", "localhost/web:1", "web", "")
	apply(t, ns, stackManifest("localhost/web:1", "localhost/web:1", "web", ""))
	expect(0, "is ready: Everything runs as declared", "wait", "shop", "--timeout=2m")
	expect(0, `shop +AppStack +True +3/3`, "list")
	expect(0, `api +Service +Healthy +1/1`, "status", "shop")
	expect(0, `Pod/shop-api-`, "tree", "shop")
	expect(0, `READY`, "why", "shop")
	expect(0, `AppStack shop +api +Deployment shop-api +localhost/web:1`, "find", "--image=web:1")
	expect(0, `api/.* app +listening on`, "logs", "shop", "--component=api")

	out, code := runPlugin(t, ns, next, "plan", "-f", "-")
	g.Expect(code).To(BeZero(), out)
	g.Expect(out).To(MatchRegexp(`changed +api +Deployment shop-api +RESTARTS 1 pod`))
	apply(t, ns, next)
	expect(0, "is ready", "wait", "shop", "--timeout=2m")
	expect(0, `api: image localhost/web:1 -> localhost/web:2`, "history", "shop")
	expect(0, ``, "rollback", "shop", "--to-revision=1", "--yes")
	expect(0, "is ready", "wait", "shop", "--timeout=2m")
	g.Expect(kubectl(t, "-n", ns, "get", "deployment", "shop-api", "-o", "jsonpath={.spec.template.spec.containers[0].image}")).To(Equal("localhost/web:1"))

	expect(0, ``, "suspend", "shop")
	expect(0, ``, "wait", "shop", "--for=suspended", "--timeout=1m")
	expect(0, ``, "resume", "shop")
	before := kubectl(t, "-n", ns, "get", "pods", "-l", "app.kubernetes.io/instance=shop", "-o", "name")
	expect(0, ``, "restart", "shop", "--component=web")
	expect(0, `pod|Pod`, "watch", "pods", "--count=1", "--timeout=30s")
	expect(0, "is ready", "wait", "shop", "--timeout=2m")
	g.Expect(kubectl(t, "-n", ns, "get", "pods", "-l", "app.kubernetes.io/instance=shop", "-o", "name")).NotTo(Equal(before))
	expect(0, `Wrote .*\.zip for AppStack`, "report", "shop")
	expect(0, `operator +OK`, "doctor")
	expect(0, `v1\.`, "version")
	expect(1, `application nothing not found in namespace `+ns, "status", "nothing")
}

// testBrokenDatabaseIsExplained expects the dependency chain of a CloudManager, from its front to the claim of its
// database.
func testBrokenDatabaseIsExplained(t *testing.T, g *WithT, ns string) {
	apply(t, ns, `{apiVersion: apps.holdfast.dev/v1alpha1, kind: CloudManager, metadata: {name: cm}, spec: {
  front: {deployment: {image: "nginx:1.20", name: ake-front}},
  identity: {deployment: {image: "busybox:1.32.1", name: cm-identity, command: [sleep, "3600"]}},
  db: {statefulSet: {image: "mariadb:10.3.35", name: cm-db, storage: {class: fast, accessModes: ReadWriteOnce, size: 1Gi}}}}}`)
	want := []string{
		"front waits for identity", "identity waits for db",
		`PersistentVolumeClaim data-cm-db-0 asks for StorageClass "fast", which does not exist`,
		"StorageClassMissing", "where: PersistentVolumeClaim/data-cm-db-0 spec.storageClassName", "fix: ", "local-path",
	}
	var out string
	g.Eventually(func() []string {
		out, _ = runPlugin(t, ns, "", "why", "cm")
		var found []string
		rest := out
		for _, w := range want { // in this order
			if _, after, ok := strings.Cut(rest, w); ok {
				found, rest = append(found, w), after
			}
		}
		return found
	}, "30s", "300ms").Should(Equal(want), "%s", out)
	t.Log("\n" + out)
	g.Eventually(func() string {
		return kubectl(t, "-n", ns, "get", "cloudmanager", "cm", "-o", "jsonpath={.status.causes[0].code}")
	}, "40s", "500ms").Should(Equal("StorageClassMissing"))
}
