package e2e

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestInstall applies the manifests as they are and finds the operator leading, as
// an ordinary pod without a right too many.
func TestInstall(t *testing.T) {
	g := NewWithT(t)
	start := time.Now()
	kubectl(t, "apply", "-k", root+"/config/default")
	t.Cleanup(func() { kubectl(t, "delete", "-k", root+"/config/default", "--wait=false") })
	defer func() {
		if t.Failed() {
			t.Log(kubectl(t, "-n", "holdfast-system", "get", "pods,events"))
			t.Log(kubectl(t, "-n", "holdfast-system", "logs", "deployment/holdfast-operator", "--tail=20"))
		}
	}()
	kubectl(t, "-n", "holdfast-system", "rollout", "status", "deployment/holdfast-operator", "--timeout=60s")
	t.Logf("operator ready %.1f s after apply", time.Since(start).Seconds())
	g.Eventually(func() string {
		return kubectl(t, "-n", "holdfast-system", "get", "lease", "--output=jsonpath={.items[*].spec.holderIdentity}")
	}, "20s").Should(HavePrefix("holdfast-operator-"))

	log := kubectl(t, "-n", "holdfast-system", "logs", "deployment/holdfast-operator")
	g.Expect(log).To(ContainSubstring(`"msg":"Starting operator"`))
	for _, line := range strings.Split(log, "\n") {
		g.Expect(line).To(HavePrefix("{"), "every line of the log is JSON")
		g.Expect(line).NotTo(ContainSubstring(`"level":"ERROR"`))
	}
}
