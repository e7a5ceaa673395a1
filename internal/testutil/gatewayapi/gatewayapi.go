// Package gatewayapi provides the CRDs of the Gateway API for tests that write HTTPRoutes. They are downloaded, not
// compiled in.
package gatewayapi

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// gatewayModule is the module with the CRDs.
const gatewayModule = "sigs.k8s.io/gateway-api@v1.4.1"

// HTTPRouteCRD returns the path of the CRD of HTTPRoutes.
func HTTPRouteCRD(t testing.TB) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", gatewayModule)
	cmd.Dir = t.TempDir() // outside of every module, so that it is not added as a dependency
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil || found.Dir == "" {
		t.Fatalf("download %s: %v %s", gatewayModule, err, found.Error)
	}
	return filepath.Join(found.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
}
