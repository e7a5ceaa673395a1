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

// seededBug is a mistake that operators are known for, put into ours: a piece of its source is
// replaced while it is built. plans are what has to bring it to light; none means that the
// scenario alone does.
type seededBug struct {
	name                  string
	file                  string
	original, replacement string
	plans                 []string
}

var seededBugs = []seededBug{
	{"adopts without looking whose it is", "internal/ownership/ownership.go",
		`case live.GetAnnotations()[appsapi.AnnotationAdopt] == "true":`, `case true:`, nil},
	{"creates without a precondition", "internal/apply/apply.go",
		`const createOnly = "1"`, `const createOnly = ""`, nil},
	{"prunes before what takes its place is ready", "internal/rollout/prune.go",
		`message, optional := p.removalBlocker(l)`, `message, optional := "", false`, nil},
	{"deletes without a precondition", "internal/apply/remove.go",
		`uid, resourceVersion := current.GetUID(), current.GetResourceVersion()
	err = a.writer.Delete(ctx, current, client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion},`,
		`uid := current.GetUID()
	err = a.writer.Delete(ctx, current,`, nil},
	{"reports from a status that is behind", "internal/health/deployment.go",
		`case d.Status.ObservedGeneration < d.Generation:`, `case false:`, nil},
	{"creates again after a timeout without looking", "internal/apply/revisions.go",
		`	if !apierrors.IsAlreadyExists(err) {`,
		`	if apierrors.IsTimeout(err) {
		revision.Name, revision.ResourceVersion = revision.Name+"-again", ""
		return revision, a.writer.Create(ctx, revision, client.FieldOwner(appsapi.FieldManager))
	}
	if !apierrors.IsAlreadyExists(err) {`, []string{"lost,install-stack,create:controllerrevisions.apps:1"}},
	{"asks again after a minute instead of watching", "engine/setup.go",
		`for _, child := range managercache.ChildKinds {
		b.Watches(`, `for _, child := range managercache.ChildKinds[1:] {
		b.Watches(`, nil},
	{"runs a job again for every change", "internal/desired/job.go",
		`d.JobSpecHash = jobSpecHash(*c.Job)`, `d.JobSpecHash = digest([]byte(fmt.Sprint(jobSpecHash(*c.Job), rc.Generation)))[:specHashLength]`, nil},
	{"believes its first list of applications", "engine/staleness.go",
		`	if isNew || `, `	if true || isNew || `, []string{"travel,upgrade,0,apps"}},
	{"forgets that an answer was lost", "internal/apply/apply.go",
		`a.childCache.resetDesiredGeneration(k, owner.UID)`, `_ = k`, []string{"lost,upgrade,apply:deployments.apps/solo:1", "lost,upgrade,apply:deployments.apps/shop-api:1"}},
}

// seededDataBugs are those that only data shows.
var seededDataBugs = []seededBug{
	{"deletes data that is to be kept", "engine/data.go",
		`return r.kind.DeletionPolicy != nil && r.kind.DeletionPolicy(app) == appsapi.DeletionDelete`, `return true`, nil},
	{"deletes the password before what it opens", "internal/rollout/teardown.go",
		`return k.Claim == nil && slices`, `return false && slices`,
		[]string{"error,data-delete-for-good,delete:persistentvolumeclaims/data-vault-db-0:1,500"}},
	{"grows by replacing pods", "internal/apply/retained.go",
		`, client.PropagationPolicy(metav1.DeletePropagationOrphan))`, `)`, nil},
	{"does not look for what was kept", "internal/desired/retained.go",
		`		if k.BelongsTo(owner) {`, `		if k.BelongsTo(owner) && !k.MarkedRetained() {`, nil},
	{"lets claims go with their set", "internal/desired/statefulset.go",
		`WithWhenDeleted(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)`, `WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)`, nil},
}

// TestSeededBugsMatchSource finds a mistake whose place in the source has changed, long before somebody
// plays them all.
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
			t.Errorf("%s: %s does not have exactly once\n%s", b.name, b.file, b.original)
		}
	}
}

// TestSeededBugs builds the operator with one mistake after the other, and sees that each
// is found: an oracle that has never said no proves nothing.
func TestSeededBugs(t *testing.T) {
	if !isLongRun() {
		t.Skip("builds the operator a dozen times: make faults runs it")
	}
	t.Parallel()
	g := newTestCluster(t, operator.Build(t, true))
	r := &reference{}
	r.learn(t, g, 2, scenarios...)
	if !r.ready() {
		t.Fatal("there is no clean run to compare with: everything would count as found")
	}
	for i, b := range slices.Concat(seededBugs, seededDataBugs) {
		steps := scenario
		if i >= len(seededBugs) {
			steps = dataScenario
		}
		t.Run(strings.ReplaceAll(b.name, " ", "-"), func(t *testing.T) {
			binary := b.build(t) // one after the other
			t.Parallel()
			start := time.Now()
			evidence := b.runUntilFound(t, g.withBinary(binary), r, steps)
			row := report.Row{Test: "seeded: " + b.name, Generated: 1, Run: 1, Measured: evidence}
			if evidence == "" {
				t.Error("was not found")
				row.Failed = 1
			} else {
				t.Logf("found after %.1f s: %s", time.Since(start).Seconds(), evidence)
			}
			report.WriteTimed(t, start, row)
		})
	}
}

// runUntilFound plays a scenario with the plans of a bug and returns what was seen of it, or "".
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

// firstViolation is the sentence that says most: that of the first violation, if there is one.
func firstViolation(text string) string {
	lines := strings.Split(text, "\n")
	return strings.TrimSpace(lines[min(1, len(lines)-1)])
}

// build makes the operator with the mistake in it. The checkout stays as it is.
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
		t.Fatalf("%s: %s does not have %q exactly once any more: put the mistake where the code is now", b.name, b.file, b.original)
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
