package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asPlugin makes the test binary run as the plugin.
const asPlugin = "TEST_AS_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(asPlugin) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// TestUnreachableCluster expects one message without the request, and no logs of libraries.
func TestUnreachableCluster(t *testing.T) {
	dir := t.TempDir()
	kubeconfig, manifest := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "app.yaml")
	for file, content := range map[string]string{
		kubeconfig: `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {}}]}`,
		manifest: `{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, metadata: {name: web}, spec: {image: "web:1"}}`,
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const next = "; check that the cluster is running and that your network can reach it, or use another cluster with --context or --kubeconfig"
	const unreachable = "error: cannot reach the API server https://127.0.0.1:1: connection refused" + next
	const unconfigured = "error: no kubeconfig found; set KUBECONFIG, or use --kubeconfig"
	for _, tc := range []struct{ command, alternative string }{
		{"list", ""}, {"list -A", ""}, {"status shop", ""}, {"status shop -w", ""}, {"why shop", ""}, {"why deployment/x", ""}, {"tree shop", ""},
		{"watch configmaps", ""}, {"find --image web", ""}, {"logs shop", ""}, {"history shop", ""}, {"rollback shop", ""}, {"suspend shop", ""},
		{"restart shop", ""}, {"rotate shop", ""}, {"scale shop --replicas 1", ""}, {"wait shop", ""}, {"ui", ""}, {"center", ""}, {"report shop", ""},
		{"doctor", ""}, {"plan -f " + manifest, ", or preview the rollout order with --offline"},
		{"version", ", or show only the version of the plugin with --client"},
	} {
		for config, want := range map[string]string{kubeconfig: unreachable, filepath.Join(dir, "none"): unconfigured} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(tc.command)...)
			cmd.Env = append(os.Environ(), asPlugin+"=1", "KUBECONFIG="+config, "HOME="+dir)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			_ = cmd.Run() // the exit code is checked below
			if got := stderr.String(); got != want+tc.alternative+"\n" || cmd.ProcessState.ExitCode() != 1 {
				t.Errorf("%s: exit code %d, got:\n%swant:\n%s%s", tc.command, cmd.ProcessState.ExitCode(), got, want, tc.alternative)
			}
		}
	}
}
