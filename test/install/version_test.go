package install

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// TestInstalledVersion checks that the manifest of `make dist` has the version of the build, so that the plugin of the same
// build finds equal versions, also if the image has another tag or only a digest.
func TestInstalledVersion(t *testing.T) {
	for _, image := range []string{"holdfast/operator:dev", "registry.example.com:5000/operator@sha256:0123"} {
		dir := t.TempDir()
		cmd := exec.Command("make", "dist", "DIST="+dir, "VERSION=1234567", "IMAGE="+image, "CENTER_IMAGE=c:1") // a hash that YAML could read as a number
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make dist: %v\n%s", err, out)
		}
		manifest, err := os.ReadFile(dir + "/install.yaml")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for doc := range strings.SplitSeq(string(manifest), "\n---\n") {
			if !strings.Contains(doc, "\nkind: Deployment\n") {
				continue
			}
			var d appsv1.Deployment
			if err := yaml.UnmarshalStrict([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
			found++
			if got := cli.DeploymentVersion(&d); got != "1234567" {
				t.Errorf("image %s: %s has version %q", image, d.Name, got)
			}
			// The selector is immutable: with the version, no upgrade could be applied.
			if v := d.Spec.Selector.MatchLabels["app.kubernetes.io/version"]; v != "" {
				t.Errorf("the selector of %s has version %q", d.Name, v)
			}
		}
		if found != 2 {
			t.Errorf("image %s: found %d Deployments", image, found)
		}
	}
}
