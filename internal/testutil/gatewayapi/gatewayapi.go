// Package gatewayapi finds the CRDs of the Gateway API, for tests that write HTTPRoutes: the
// real ones, with their defaults and rules. Nothing of it is compiled in.
package gatewayapi

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
)

// module has the CRDs in it.
const module = "sigs.k8s.io/gateway-api@v1.4.1"

// CRDs returns the path of the CRD of HTTPRoutes.
func CRDs(t testing.TB) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside of every module: it is no dependency of one
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &found); jsonErr != nil || found.Dir == "" {
		t.Fatalf("download %s: %v %s", module, err, found.Error)
	}
	return filepath.Join(found.Dir, "config", "crd", "standard", "gateway.networking.k8s.io_httproutes.yaml")
}
