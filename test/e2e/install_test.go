package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// installOnce applies the unmodified manifests once; they stay until the end of the run.
var installOnce = sync.OnceValues(func() (time.Duration, error) {
	start := time.Now()
	if _, err := tryKubectl("", "apply", "-f", root+"/dist/install.yaml"); err != nil {
		return 0, err
	}
	if _, err := tryKubectl("", "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-operator", "--timeout=60s"); err != nil {
		return 0, err
	}
	took := time.Since(start)
	_, err := tryKubectl("", "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-center", "--timeout=60s")
	return took, err
})

func requireInstalled(t *testing.T) {
	t.Helper()
	took, err := installOnce()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(kubectl(t, "-n", "holdfast-system", "get", "pods,events"))
			t.Log(kubectl(t, "-n", "holdfast-system", "logs", "deployment/holdfast-operator", "--tail=40"))
			t.Log(kubectl(t, "-n", "holdfast-system", "logs", "-l", "app.kubernetes.io/component=center", "--tail=20"))
		}
	})
	t.Logf("operator was ready %.1f s after apply", took.Seconds())
}

// TestInstall applies the unmodified manifests and checks that the operator is the leader and runs with restricted
// privileges.
func TestInstall(t *testing.T) {
	g := NewWithT(t)
	requireInstalled(t)
	g.Eventually(func() string {
		return kubectl(t, "-n", "holdfast-system", "get", "lease", "--output=jsonpath={.items[*].spec.holderIdentity}")
	}, "20s").Should(HavePrefix("holdfast-operator-"))

	log := kubectl(t, "-n", "holdfast-system", "logs", "deployment/holdfast-operator")
	g.Expect(log).To(ContainSubstring(`"msg":"Starting operator"`))
	for _, line := range strings.Split(log, "\n") {
		g.Expect(line).To(HavePrefix("{"), "every line of the log is JSON")
		// An object created seconds after its CRD can be rejected, because the garbage collector admission plugin does
		// not know the kind yet; the operator retries.
		if !strings.Contains(line, "cannot find RESTMapping") {
			g.Expect(line).NotTo(ContainSubstring(`"level":"ERROR"`))
		}
	}
}
