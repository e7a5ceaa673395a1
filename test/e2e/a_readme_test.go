package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
)

const readmeTimeLimit = 5 * time.Minute

// TestReadme runs the commands of the README and checks the shown output. It is the first test of the package, so that
// it starts with a fresh cluster.
func TestReadme(t *testing.T) {
	if total := runPage(t, "README.md"); total > readmeTimeLimit {
		t.Errorf("the README promises five minutes, this took %s", total)
	}
}

// testDatabasePage runs the commands of the database page, in the namespace that the page uses.
func testDatabasePage(t *testing.T, _ *WithT, _ string) {
	t.Cleanup(func() { kubectl(t, "delete", "namespace", "shop", "--wait=false", "--ignore-not-found") })
	runPage(t, "docs/user/database.md")
}

// runPage runs the commands of a page block by block and returns the total time.
func runPage(t *testing.T, file string) (total time.Duration) {
	t.Helper()
	for _, s := range markedSteps(t, file) {
		start := time.Now()
		out, err := s.run(t.Context())
		took := time.Since(start)
		total += took
		firstLine, _, _ := strings.Cut(s.Text, "\n")
		t.Logf("%5.1f s  %s", took.Seconds(), firstLine)
		if err != nil {
			t.Fatalf("%s:%d: %v\n%s", file, s.Line, err, out)
		}
		for line := range strings.Lines(s.expected) {
			if !lineAppears(line, out) {
				t.Errorf("%s:%d: want line\n  %s\ngot output:\n%s", file, s.Line, line, out)
			}
		}
	}
	t.Logf("%5.1f s  in total", total.Seconds())
	return total
}

// step is a block of commands and the expected output below it.
type step struct {
	markdown.Block
	expected string
}

// markedSteps returns the marked command blocks of a page.
func markedSteps(t *testing.T, file string) []step {
	t.Helper()
	page, err := markdown.Read(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	var steps []step
	for i, block := range page.Blocks {
		ownCluster := block.Marker == "start: own cluster" && clusterDir != ""
		if block.Marker != "start" && !ownCluster {
			continue
		}
		s := step{Block: block}
		if i+1 < len(page.Blocks) && page.Blocks[i+1].Info == "text" {
			s.expected = page.Blocks[i+1].Text
		}
		steps = append(steps, s)
	}
	if len(steps) < 5 {
		t.Fatalf("%s has %d blocks that are marked with <!-- start -->", file, len(steps))
	}
	return steps
}

// run executes the commands in a shell in the root of the repository.
func (s step) run(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readmeTimeLimit)
	defer cancel()
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", s.Text)
	cmd.Dir = root
	// make may have exported its own settings.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") })
	cmd.Env = append(cmd.Env, "KUBECONFIG="+kubeconfig, "DIR="+clusterDir, fmt.Sprintf("PATH=%s/k8s:%s:%s", bin, bin, os.Getenv("PATH")))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// lineAppears reports whether the output contains a line of the page. Words with digits, such as ages and pod names, are
// ignored.
func lineAppears(line, output string) bool {
	words := slices.DeleteFunc(strings.Fields(line), func(w string) bool { return strings.ContainsAny(w, "0123456789") })
	for got := range strings.Lines(output) {
		fields := strings.Fields(got)
		if !slices.ContainsFunc(words, func(w string) bool {
			i := slices.Index(fields, w)
			fields = fields[i+1:]
			return i < 0
		}) {
			return true
		}
	}
	return false
}
