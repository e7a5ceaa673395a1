package e2e

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var deletions = flag.Int("deletions", 1, "number of databases of each version that are deleted during their first start")

// maxFirstStart is the maximum duration of a deletion: the rest of the first start and a clean shutdown. The grace
// period is ten minutes.
const maxFirstStart = time.Minute

// TestDatabaseIsDeletedDuringItsFirstStart deletes databases while the entrypoint of their image initializes the
// volume. It is process 1 of the container and does not handle SIGTERM.
func TestDatabaseIsDeletedDuringItsFirstStart(t *testing.T) {
	requireInstalled(t)
	for _, version := range []string{"10.11", "11.8"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			var durations []string
			for i := range *deletions {
				// From the start of the container until after the first login.
				d := deleteDuringFirstStart(t, version, time.Duration(i)*8*time.Second/time.Duration(*deletions))
				durations = append(durations, fmt.Sprintf("%.1f", d.Seconds()))
			}
			t.Logf("mariadb:%s: deleted in %s s", version, strings.Join(durations, ", "))
		})
	}
}

// deleteDuringFirstStart deletes a database some time after its container was started, and returns the duration.
func deleteDuringFirstStart(t *testing.T, version string, after time.Duration) time.Duration {
	t.Helper()
	g := NewWithT(t)
	ns := "e2e-stop-" + strings.ReplaceAll(version, ".", "-")
	kubectl(t, "create", "namespace", ns)
	defer kubectl(t, "delete", "namespace", ns)
	apply(t, ns, `{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}, spec: {deletionPolicy: Delete, components: [
		{name: db, database: {version: "`+version+`", storage: {size: 1Gi}}}]}}`)
	g.Eventually(func() string {
		state, _ := tryKubectl("", "-n", ns, "get", "pod", "shop-db-0", "-o", "jsonpath={.status.containerStatuses[0].state.running}")
		return state
	}, "60s", "50ms").ShouldNot(BeEmpty(), "the container did not start")
	time.Sleep(after) // the moment within the start is the input of this test
	start := time.Now()
	kubectl(t, "-n", ns, "delete", "appstack", "shop", "--wait=false")
	gone := func() string {
		return kubectl(t, "-n", ns, "get", "appstacks,statefulsets,pods,persistentvolumeclaims", "-o", "name")
	}
	g.Eventually(gone, maxFirstStart, "200ms").Should(BeEmpty(), func() string {
		return kubectl(t, "-n", ns, "describe", "appstack,pod")
	})
	return time.Since(start)
}
