package operator

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"
)

// ManifestSettings returns the environment and the memory limit in bytes of an installed operator.
func ManifestSettings(t testing.TB) (env []string, memory int64) {
	t.Helper()
	root, err := RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "config/manager/deployment.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		var d appsv1.Deployment
		if err := yaml.Unmarshal(document, &d); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		if d.Kind != "Deployment" {
			continue
		}
		c := d.Spec.Template.Spec.Containers[0]
		for _, e := range c.Env {
			env = append(env, e.Name+"="+e.Value)
		}
		return env, c.Resources.Limits.Memory().Value()
	}
	t.Fatalf("%s has no Deployment", file)
	return nil, 0
}
