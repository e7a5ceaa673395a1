package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// seededBug is a typical operator bug that is patched into the source at build time. plans must detect it; without plans
// the scenario alone must.
type seededBug struct {
	name                  string
	file                  string
	original, replacement string
	plans                 []string
}

var seededBugs = []seededBug{
	{"adopts objects of other owners", "internal/ownership/ownership.go",
		`case live.GetAnnotations()[owner.Keys.Adopt] == "true":`, `case true:`, nil},
	{"creates without a precondition", "internal/apply/apply.go",
		`const createOnly = "1"`, `const createOnly = ""`, nil},
	{"prunes before the replacement is ready", "internal/rollout/prune.go",
		`message, optional := p.removalBlocker(l)`, `message, optional := "", false`, nil},
	{"deletes without a precondition", "internal/apply/remove.go",
		`uid, resourceVersion := current.GetUID(), current.GetResourceVersion()
	err = a.writer.Delete(ctx, current, client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},`,
		`uid := current.GetUID()
	err = a.writer.Delete(ctx, current,`, nil},
	{"trusts an outdated status", "internal/health/deployment.go",
		`case d.Status.ObservedGeneration < d.Generation:`, `case false:`, nil},
	{"creates again after a timeout without a check", "internal/apply/revisions.go",
		`	if !apierrors.IsAlreadyExists(err) {`,
		`	if apierrors.IsTimeout(err) {
		revision.Name, revision.ResourceVersion = revision.Name+"-again", ""
		return revision, a.writer.Create(ctx, revision, client.FieldOwner(owner.Keys.FieldManager))
	}
	if !apierrors.IsAlreadyExists(err) {`, []string{"lost,install-stack,create:controllerrevisions.apps:1"}},
	{"polls instead of watching", "internal/reconcile/setup.go",
		`for _, child := range childKinds.Required {
		b.Watches(`, `for _, child := range childKinds.Required[1:] {
		b.Watches(`, nil},
	{"reruns a job for every change", "internal/desired/job.go",
		`d.JobSpecHash = jobSpecHash(*c.Job)`, `d.JobSpecHash = digest([]byte(fmt.Sprint(jobSpecHash(*c.Job), rc.Generation)))[:specHashLength]`, nil},
	{"trusts its first list of applications", "internal/reconcile/execute/staleness.go",
		`	if isNew || `, `	if true || isNew || `, []string{"travel,upgrade,0,apps"}},
	{"ignores a lost response", "internal/apply/apply.go",
		`a.childCache.resetDesiredGeneration(k, owner.UID)`, `_ = k`, []string{"lost,upgrade,apply:deployments.apps/solo:1", "lost,upgrade,apply:deployments.apps/shop-api:1"}},
}

// seededDataBugs are bugs that only affect data.
var seededDataBugs = []seededBug{
	{"deletes retained data", "internal/reconcile/execute/kind.go",
		`return k.DeletionPolicy != nil && k.DeletionPolicy(app) == appsapi.DeletionDelete`, `return true`, nil},
	{"deletes the password before the volume", "internal/rollout/teardown.go",
		`return k.Claim == nil && slices`, `return false && slices`,
		[]string{"error,data-delete-for-good,delete:persistentvolumeclaims/data-vault-db-0:1,500"}},
	{"replaces pods on volume expansion", "internal/apply/remove.go",
		`, client.PropagationPolicy(metav1.DeletePropagationOrphan))`, `)`, nil},
	{"ignores retained data", "internal/desired/retained.go",
		`		if k.BelongsTo(owner) {`, `		if k.BelongsTo(owner) && !k.MarkedRetained() {`, nil},
	{"deletes claims with their StatefulSet", "internal/desired/statefulset.go",
		`WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)`, `WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)`, nil},
}

// TestSeededBugsMatchSource detects outdated patches without running them.
func TestSeededBugsMatchSource(t *testing.T) {
	root, err := operator.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range slices.Concat(seededBugs, seededDataBugs) {
		source, err := os.ReadFile(filepath.Join(root, b.file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(source), b.original) != 1 {
			t.Errorf("%s: %s does not contain exactly once:\n%s", b.name, b.file, b.original)
		}
	}
}

// TestSeededBugs builds the operator with one bug at a time and checks that the oracles detect it.
func TestSeededBugs(t *testing.T) {
	if !isLongRun() {
		t.Skip("builds the operator a dozen times: make faults runs it")
	}
	t.Parallel()
	g := newTestCluster(t, operator.Build(t, true))
	r := &reference{}
	r.learn(t, g, 2, scenarios...)
	if !r.ready() {
		t.Fatal("no clean run to compare with: every bug would count as found")
	}
	for i, b := range slices.Concat(seededBugs, seededDataBugs) {
		steps := scenario
		if i >= len(seededBugs) {
			steps = dataScenario
		}
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			binary := b.build(t) // builds are sequential
			t.Parallel()
			start := time.Now()
			evidence := b.runUntilFound(t, g.withBinary(binary), r, steps)
			row := report.Row{Test: "seeded: " + b.name, Generated: 1, Run: 1, Measured: evidence}
			if evidence == "" {
				t.Error("bug was not found")
				row.Failed = 1
			} else {
				t.Logf("found after %.1f s: %s", time.Since(start).Seconds(), evidence)
			}
			report.WriteTimed(t, start, row)
		})
	}
}

// runUntilFound runs a scenario with the plans of a bug and returns the evidence, or "".
func (b seededBug) runUntilFound(t *testing.T, g *testCluster, r *reference, steps []step) string {
	plans := map[string][]plan{}
	for _, line := range b.plans {
		p, err := parsePlan(line)
		if err != nil {
			t.Fatal(err)
		}
		plans[p.step] = append(plans[p.step], p)
	}
	for try := range max(1, 3*min(1, len(plans))) {
		w := newWorld(t, g)
		for _, s := range steps {
			var hooks faultHooks
			name := s.name
			if stepPlans := plans[s.name]; len(stepPlans) > 0 {
				p := stepPlans[try%len(stepPlans)]
				hooks, name = w.hooksFor(p, &injectionFlag{}), p.String()
			}
			m, err := w.runStep(t.Context(), s, hooks)
			if err != nil {
				return fmt.Sprintf("%s: %s", name, firstViolation(err.Error()))
			}
			if diff := r.compare(s.name, m); len(diff) > 0 {
				return fmt.Sprintf("%s: divergent, %s", name, diff[0])
			}
		}
	}
	return ""
}

// firstViolation returns the first violation of an error, if there is one.
func firstViolation(text string) string {
	lines := strings.Split(text, "\n")
	return strings.TrimSpace(lines[min(1, len(lines)-1)])
}

// build builds the operator with the bug. The working tree is not changed.
func (b seededBug) build(t *testing.T) string {
	t.Helper()
	root, err := operator.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, b.file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(content), b.original) != 1 {
		t.Fatalf("%s: %s does not contain %q exactly once: update the patch", b.name, b.file, b.original)
	}
	dir := t.TempDir()
	patchedFile := filepath.Join(dir, "wrong.go")
	source := strings.Replace(string(content), b.original, b.replacement, 1)
	if strings.Contains(b.replacement, "fmt.") && !strings.Contains(source, "\t\"fmt\"\n") {
		source = strings.Replace(source, "import (\n", "import (\n\t\"fmt\"\n", 1)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: patchedFile}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{patchedFile: []byte(source), filepath.Join(dir, "overlay.json"): overlay} {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "operator")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-overlay="+filepath.Join(dir, "overlay.json"), "-o", binary, "./cmd/operator")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", b.name, err, out)
	}
	return binary
}
