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

// fixture is a fault recorded in a cluster, and the cause that must be reported for it.
type fixture struct {
	Now  time.Time `json:"now"`
	Code Code      `json:"code"`
	// Workload is the workload of the cause, if there are several.
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
			t.Fatalf("%s: %T explains nothing", file, obj)
		}
	}
	return s, f
}

// formatCause formats a cause for the golden file.
func formatCause(c Cause) string {
	return fmt.Sprintf("%s (%s) %s\n  %s\n  fix: %s\n", c.Code, c.Severity, c.Object, c.Message, c.Fix)
}

// TestCauses checks every cause, with its exact message and fix, against objects recorded in a real
// cluster. The projected pods in the cache of the operator must lead to the same cause.
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
			t.Errorf("%s: cause %s is missing in %v", file, f.Code, causes)
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
			t.Errorf("%s: projected pods lead to %v, want %s", file, projected, causes[i].Message)
		}
	}
	for _, e := range Catalog {
		if !shown[e.Code] && !slices.Contains(coveredElsewhere, e.Code) {
			t.Errorf("no fixture for %s in %s", e.Code, causesDir)
		}
	}
	golden.CheckFile(t, "testdata/causes.txt", all.String())
	golden.CheckFile(t, "../../docs/user/causes.md", string(renderCausesPage(examples)))
}

// renderCausesPage renders docs/user/causes.md.
func renderCausesPage(examples map[Code][]Cause) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Causes

<!-- Generated from internal/explain by go test ./internal/explain -update. -->

This page lists all causes that Holdfast reports for an application that is not ready. The codes appear in
`+"`status.causes`"+`, in `+"`kubectl holdfast why -o json`"+` and in the HTTP API of the application center, and do not change
between versions. An *error* explains why an application is not ready; a *notice* is additional information.
[why.md](why.md) explains how causes are found and ranked.

| code | severity | description |
| --- | --- | --- |
`)
	for _, e := range Catalog {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s |\n", e.Code, anchor(e.Code), e.Severity, e.Description)
	}
	for _, e := range Catalog {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\nDetected from: %s.\n", e.Code, e.Description, e.Source)
		for _, c := range examples[e.Code] {
			fmt.Fprintf(&b, "\n> %s\n>\n> Fix: %s\n", c.Message, c.Fix)
		}
	}
	return b.Bytes()
}

var (
	// needsFullPod are causes that projected pods do not show.
	needsFullPod = []Code{SelectorMismatch, PortMismatch, UpdateBlocked}
	// coveredElsewhere are causes that need more than one component: internal/inspect and the
	// operator report them.
	coveredElsewhere = []Code{DependencyWait, FieldConflict, NamespaceTerminating}
)
