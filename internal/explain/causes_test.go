package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// fixture is a fault as it was seen in a cluster, and what must be said about it.
type fixture struct {
	Now  time.Time `json:"now"`
	Code Code      `json:"code"`
	// Workload is the workload that it is about, if there are several.
	Workload      string            `json:"of,omitempty"`
	MissingRefs   []Ref             `json:"absent,omitempty"`
	CompleteKinds []string          `json:"whole,omitempty"`
	Objects       []json.RawMessage `json:"objects"`
}

const causesDir = "testdata/causes"

func readFixture(t *testing.T, file string) (Snapshot, fixture) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := yaml.UnmarshalStrict(content, &f); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	s := Snapshot{MissingRefs: f.MissingRefs, CompleteKinds: f.CompleteKinds}
	for _, raw := range f.Objects {
		obj, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(raw, nil, nil)
		if runtime.IsNotRegisteredError(err) {
			u := &unstructured.Unstructured{}
			obj, err = u, u.UnmarshalJSON(raw)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !s.Add(obj) && obj.GetObjectKind().GroupVersionKind().Kind != "PodDisruptionBudget" {
			t.Fatalf("%s: nothing is explained by a %T", file, obj)
		}
	}
	return s, f
}

// formatCause is a cause as the golden file has it.
func formatCause(c Cause) string {
	return fmt.Sprintf("%s (%s) %s\n  %s\n  fix: %s\n", c.Code, c.Severity, c.Object, c.Message, c.Fix)
}

// TestCauses holds every cause against objects as a real cluster has them, and the exact
// sentences that people read. What is kept of pods by the operator must tell the same.
func TestCauses(t *testing.T) {
	files, err := filepath.Glob(causesDir + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	var all bytes.Buffer
	shown := map[Code]bool{}
	examples := map[Code][]Cause{}
	for _, file := range files {
		s, f := readFixture(t, file)
		causes := Explain(s, f.Now).Causes
		i := slices.IndexFunc(causes, func(c Cause) bool { return c.Code == f.Code })
		if i < 0 {
			t.Errorf("%s: there is no %s in %v", file, f.Code, causes)
			continue
		}
		shown[f.Code] = true
		examples[f.Code] = append(examples[f.Code], causes[i])
		fmt.Fprintf(&all, "%s: %s", strings.TrimSuffix(filepath.Base(file), ".yaml"), formatCause(causes[i]))
		checkCauseText(t, causes, "S3CR3T")
		for n, p := range s.Pods {
			s.Pods[n] = ProjectPod(p)
		}
		if projected := Explain(s, f.Now).Causes; !slices.ContainsFunc(projected, func(c Cause) bool { return c.Code == f.Code && c.Message == causes[i].Message }) &&
			!slices.Contains(needsFullPod, f.Code) {
			t.Errorf("%s: of what the operator keeps of pods follows %v, want %s", file, projected, causes[i].Message)
		}
	}
	for _, e := range Catalog {
		if !shown[e.Code] && !slices.Contains(coveredElsewhere, e.Code) {
			t.Errorf("there is no fixture of %s in %s", e.Code, causesDir)
		}
	}
	golden.CheckFile(t, "testdata/causes.txt", all.String())
	golden.CheckFile(t, "../../docs/user/causes.md", string(renderCausesPage(examples)))
}

// renderCausesPage is what people read about all causes.
func renderCausesPage(examples map[Code][]Cause) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Causes

<!-- Generated from internal/explain by go test ./internal/explain -update. -->

Everything that Holdfast knows to be a reason why an application is not ready, or worth knowing about one. The
codes are in `+"`status.causes`"+`, in `+"`kubectl holdfast why -o json`"+` and in the answers of every other program of
Holdfast; they stay the same. An *error* explains why something is not ready, a *notice* does not.
[why.md](why.md) says how causes are found and ranked.

| code | | means |
| --- | --- | --- |
`)
	for _, e := range Catalog {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.Code, anchor(e.Code), e.Severity, e.Description)
	}
	for _, e := range Catalog {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nRead from: %s.\n", e.Code, e.Description, e.Source)
		for _, c := range examples[e.Code] {
			fmt.Fprintf(&b, "\n> %s\n>\n> Fix: %s\n", c.Message, c.Fix)
		}
	}
	return b.Bytes()
}

var (
	// needsFullPod are causes that who keeps only part of pods does not see.
	needsFullPod = []Code{SelectorMismatch, PortMismatch, UpdateBlocked}
	// coveredElsewhere are causes that follow from more than one component: internal/inspect and the
	// operator name them.
	coveredElsewhere = []Code{DependencyWait, FieldConflict, NamespaceTerminating}
)
