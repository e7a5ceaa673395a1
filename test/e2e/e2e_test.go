// Package e2e tests user workflows on a real cluster with a real node. KUBECONFIG selects the cluster; without it the
// suite starts its own.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	root          = "../.."
	operatorImage = "holdfast/operator:dev"
	centerImage   = "holdfast/center:dev"
	// webImage2 is the same program as the cluster's localhost/web:1, under a newer tag.
	webImage2 = "localhost/web:2"
	// ledgerImage writes rows into the bound database.
	ledgerImage = "localhost/ledger:1"
)

var (
	kubeconfig = os.Getenv("KUBECONFIG")
	// clusterDir is the directory of the cluster that the suite started; empty on the user's cluster.
	clusterDir string
)

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		fmt.Println("end-to-end tests need a cluster: make test-e2e runs them")
		return
	}
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// withCluster runs the tests on the user's cluster, which must be able to pull the operator image, or on a cluster that
// is deleted afterwards.
func withCluster(runTests func() int) (code int, err error) {
	if kubeconfig != "" {
		fmt.Printf("end-to-end tests run on the cluster of KUBECONFIG=%s\n", kubeconfig)
		return runTests(), nil
	}
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return 0, err
	}
	clusterDir = filepath.Join(dir, "cluster")
	defer func() {
		err = errors.Join(err, runClusterTool("down", "--dir="+clusterDir), os.RemoveAll(dir))
	}()
	if err := runClusterTool("up", "--dir="+clusterDir, "--port=27443"); err != nil {
		return 0, err
	}
	web := filepath.Join(dir, "web")
	if err := buildProgram(web, "test/cluster", "./images/web"); err != nil {
		return 0, err
	}
	ledger := filepath.Join(dir, "ledger")
	if err := buildProgram(ledger, "", "./test/e2e/ledger"); err != nil {
		return 0, err
	}
	for name, program := range map[string]string{
		operatorImage: filepath.Join(root, "bin", "operator"),
		centerImage:   filepath.Join(root, "bin", "center"),
		webImage2:     web,
		ledgerImage:   ledger,
	} {
		if err := runClusterTool("load", "--dir="+clusterDir, "--name="+name, program); err != nil {
			return 0, err
		}
	}
	kubeconfig = filepath.Join(dir, "cluster", "kubeconfig")
	return runTests(), nil
}

// buildProgram builds a program of this repository for an image.
func buildProgram(program, module, source string) error {
	cmd := exec.Command("go", "build", "-o", program, source)
	cmd.Dir = filepath.Join(root, module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", source, err, out)
	}
	return nil
}

func runClusterTool(args ...string) error {
	cmd := exec.Command(filepath.Join(root, "bin", "cluster"), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w", args[0], err)
	}
	return nil
}

// kubectl runs a command that must succeed and returns its output.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryKubectl("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func apply(t *testing.T, namespace, manifest string) {
	t.Helper()
	if _, err := tryKubectl(manifest, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// tryKubectl runs a command and returns its output.
func tryKubectl(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // also usable in a cleanup
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "k8s", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
