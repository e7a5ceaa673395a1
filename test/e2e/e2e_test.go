// Package e2e holds the journeys: what a user does, on a real cluster with a real
// node. KUBECONFIG chooses the cluster; without it the suite starts its own.
package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const (
	root          = "../.."
	operatorImage = "holdfast/operator:dev"
)

var kubeconfig = os.Getenv("KUBECONFIG")

func TestMain(m *testing.M) {
	if flag.Parse(); testing.Short() {
		fmt.Println("journeys need a cluster: make test-e2e runs them")
		return
	}
	code, err := withCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

// withCluster runs the journeys on the user's cluster, which must be able to pull the
// operator's image, or on one that ends with them.
func withCluster(journeys func() int) (code int, err error) {
	if kubeconfig != "" {
		fmt.Printf("journeys run on the cluster of KUBECONFIG=%s\n", kubeconfig)
		return journeys(), nil
	}
	dir, err := os.MkdirTemp("", "e2e-")
	if err != nil {
		return 0, err
	}
	data := "--dir=" + filepath.Join(dir, "cluster")
	defer func() {
		err = errors.Join(err, cluster("down", data), os.RemoveAll(dir))
	}()
	if err := cluster("up", data, "--port=27443"); err != nil {
		return 0, err
	}
	program := filepath.Join(root, "bin", "linux-"+runtime.GOARCH, "operator")
	if err := cluster("load", data, "--name="+operatorImage, program); err != nil {
		return 0, err
	}
	kubeconfig = filepath.Join(dir, "cluster", "kubeconfig")
	return journeys(), nil
}

func cluster(args ...string) error {
	cmd := exec.Command(filepath.Join(root, "bin", "cluster"), args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cluster %s: %w", args[0], err)
	}
	return nil
}

// kubectl runs it and returns its output; it must succeed.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // also at the end of a test
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "k8s", "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
