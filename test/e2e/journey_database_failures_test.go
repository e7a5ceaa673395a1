package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// longerThanLiveness exceeds the time after which the liveness probe fails.
const longerThanLiveness = 80 * time.Second

// TestDatabaseSurvivesOverloadAndRecovery exhausts the connections of a server and delays the recovery of another. Neither server must be
// killed, and the condition must name the problem.
func TestDatabaseSurvivesOverloadAndRecovery(t *testing.T) {
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("takes minutes: make test-db runs it")
	}
	requireInstalled(t)
	for name, run := range map[string]func(*testing.T, *WithT, string){"Full": testConnectionsExhausted, "Recovering": testCrashRecovery} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := "e2e-db-" + strings.ToLower(name)
			kubectl(t, "create", "namespace", ns)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(kubectl(t, "-n", ns, "get", "holdfast,pods,events", "-o", "wide"))
				}
				kubectl(t, "delete", "namespace", ns, "--wait=false")
			})
			apply(t, ns, `{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}, spec: {components: [
				{name: db, database: {version: "11.8", storage: {size: 1Gi}, config: "[server]\nmax_connections = 10"}}]}}`)
			kubectl(t, "-n", ns, "wait", "--for=condition=Ready", "appstack/shop", "--timeout=120s")
			run(t, NewWithT(t), ns)
			g := NewWithT(t)
			g.Eventually(func() string { return stackReadyMessage(t, ns) }, "120s", "500ms").Should(HavePrefix("True "))
		})
	}
}

// stackReadyMessage returns the Ready condition of the stack.
func stackReadyMessage(t *testing.T, ns string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "get", "appstack", "shop", "-o", `jsonpath={range .status.conditions[?(@.type=="Ready")]}{.status} {.message}{end}`)
}

func podRestarts(t *testing.T, ns string) string {
	t.Helper()
	return kubectl(t, "-n", ns, "get", "pod", "shop-db-0", "-o", "jsonpath={.metadata.uid} {.status.containerStatuses[0].restartCount}")
}

// testConnectionsExhausted opens all connections and keeps them.
func testConnectionsExhausted(t *testing.T, g *WithT, ns string) {
	before := podRestarts(t, ns)
	password := kubectl(t, "-n", ns, "get", "secret", "shop-db-auth", "-o", `go-template={{index .data "password" | base64decode}}`)
	done := make(chan error, 1)
	go func() {
		_, err := tryKubectl(password, "-n", ns, "exec", "-i", "shop-db-0", "--", "sh", "-c", fmt.Sprintf(
			`read -r p; export MYSQL_PWD="$p"; for i in $(seq 14); do mariadb -h127.0.0.1 -udb -e "SELECT SLEEP(%d)" db >/dev/null 2>&1 & done; wait`,
			int(longerThanLiveness.Seconds())))
		done <- err
	}()
	start := time.Now()
	g.Eventually(func() string { return stackReadyMessage(t, ns) }, "90s", "500ms").
		Should(Equal("False Database shop-db has no free connections for applications: close some, or raise max_connections in config"))
	t.Logf("reported after %.0f s", time.Since(start).Seconds())
	var err error
	g.Eventually(done, "150s").Should(Receive(&err))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(time.Since(start)).To(BeNumerically(">=", longerThanLiveness-5*time.Second), "the connections were closed too early")
	g.Expect(podRestarts(t, ns)).To(Equal(before), "a server without free connections was killed")
}

// testCrashRecovery kills the server and stops the next one before it accepts connections, which looks like a long
// recovery.
func testCrashRecovery(t *testing.T, g *WithT, ns string) {
	uid := kubectl(t, "-n", ns, "get", "pod", "shop-db-0", "-o", "jsonpath={.metadata.uid}")
	former := podProcesses(t, uid, isMariaDB)
	killProgram(t, uid, isMariaDB)
	var next int
	g.Eventually(func() bool {
		now := podProcesses(t, uid, isMariaDB)
		if len(now) != 1 || slices.Equal(now, former) {
			return false
		}
		next = now[0]
		return true
	}, "60s", "1ms").Should(BeTrue())
	g.Expect(syscall.Kill(next, syscall.SIGSTOP)).To(Succeed())
	t.Cleanup(func() { _ = syscall.Kill(next, syscall.SIGCONT) })
	start, after := time.Now(), podRestarts(t, ns)
	g.Eventually(func() string { return stackReadyMessage(t, ns) }, "30s", "500ms").Should(ContainSubstring("recovers from a crash"))
	time.Sleep(longerThanLiveness - time.Since(start))
	g.Expect(stackReadyMessage(t, ns)).To(ContainSubstring("the server of database shop-db does not accept logins yet"))
	g.Expect(podRestarts(t, ns)).To(Equal(after), "a recovering server was killed")
	g.Expect(syscall.Kill(next, syscall.SIGCONT)).To(Succeed())
	g.Eventually(func() string { return stackReadyMessage(t, ns) }, "60s", "500ms").ShouldNot(ContainSubstring("does not accept logins yet"))
	g.Expect(podRestarts(t, ns)).To(Equal(after))
}
