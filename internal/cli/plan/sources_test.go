package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeFiles writes files to a new directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	webService = "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: web}, spec: {image: \"web:1\"}}"
	apiService = "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: api}, spec: {image: \"api:1\"}}"
)

func TestPlanReadsDirectories(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"web.yaml": webService, "notes.txt": "a: [",
		"api.json":   `{"apiVersion": "apps.holdfast.dev/v1alpha1", "kind": "AppService", "metadata": {"name": "api"}, "spec": {"image": "api:1"}}`,
		"config.yml": "{apiVersion: v1, kind: ConfigMap}", "kustomization.yaml": "resources: [web.yaml]",
	})
	out, errOut, err := runVerb(strings.NewReader(""), "-f", dir)
	if err != nil || !strings.HasPrefix(out, "AppService api, 1 component\n") || !strings.Contains(out, "\nAppService web, 1 component\n") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{"config.yml: document 1 (ConfigMap) is not a Holdfast kind; skipped\n", "kustomization.yaml is a kustomization; skipped, use -k " + dir} {
		if !strings.Contains(errOut, want) {
			t.Errorf("messages lack %q:\n%s", want, errOut)
		}
	}
}

func TestPlanBuildsKustomizations(t *testing.T) {
	dir := writeFiles(t, map[string]string{
		"web.yaml": webService, "api.yaml": apiService,
		"kustomization.yaml": "namePrefix: live-\nnamespace: production\nresources: [web.yaml]\n",
	})
	out, _, err := runVerb(strings.NewReader(""), "-k", dir)
	if err != nil || !strings.HasPrefix(out, "AppService production/live-web, 1 component\n") || strings.Contains(out, "api") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestInvalidSources(t *testing.T) {
	empty := writeFiles(t, nil)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"directory without manifests": {[]string{"-f", empty}, empty + " has no .yaml, .yml or .json file; specify another directory, or a manifest"},
		"no kustomization":            {[]string{"-k", empty}, "build " + empty + ": unable to find one of 'kustomization.yaml'"},
		"file and kustomization":      {[]string{"-f", "a", "-k", "b"}, "-f and -k cannot be combined; use one of them"},
		"directory of other kinds": {[]string{"-f", writeFiles(t, map[string]string{"a.yaml": "{apiVersion: v1, kind: ConfigMap}"})},
			": no AppStack, AppService or CloudManager found; specify a manifest with an application"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := runVerb(strings.NewReader(""), tc.args...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}
