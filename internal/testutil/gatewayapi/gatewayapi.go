// Package gatewayapi finds the CRDs of the Gateway API, for tests that write HTTPRoutes: the
// real ones, with their defaults and rules. Nothing of it is compiled in.
package gatewayapi

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// gatewayModule has the CRDs in it.
const gatewayModule = "sigs.k8s.io/gateway-api@v1.4.1"

// HTTPRouteCRD returns the path of the CRD of HTTPRoutes.
func HTTPRouteCRD(t testing.TB) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", gatewayModule)
	cmd.Dir = t.TempDir() // outside of every module: it is no dependency of one
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil || found.Dir == "" {
		t.Fatalf("download %s: %v %s", gatewayModule, err, found.Error)
	}
	return filepath.Join(found.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
}
