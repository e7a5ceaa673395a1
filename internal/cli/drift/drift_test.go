package drift

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/fixtures"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

func ago(d time.Duration) metav1.Time { return metav1.NewTime(fixtures.Now.Add(-d)) }

// newFixtures returns a stack with corrections, a service with a contended field, one without drift, and one
// in another namespace.
func newFixtures() []*fixtures.Fixture {
	shop := fixtures.New("appstack", "shop", `{components: [{name: api, service: {image: "api:1"}}]}`)
	shop.App.ApplicationStatus().Drift = []appsapi.DriftCorrection{
		{Object: appsapi.ObjectReference{Kind: "Deployment", Name: "shop-api"}, Managers: []string{"kubectl-set"}, Count: 1, FirstTime: ago(2 * time.Minute), LastTime: ago(2 * time.Minute),
			Fields: []appsapi.CorrectedField{
				{Path: "spec.template.spec.containers[app].env[TOKEN].value", From: "(hidden)", To: "(hidden)"},
				{Path: "spec.template.spec.containers[app].image", From: "example.com/a/long/name/of/an/image:9", To: "api:1"},
			}},
		{Object: appsapi.ObjectReference{Kind: "Service", Name: "shop-api"}, Deleted: true, Count: 1, FirstTime: ago(26 * time.Hour), LastTime: ago(26 * time.Hour)},
	}
	site := fixtures.New("appservice", "site", `{image: "nginx:1.27"}`)
	site.App.ApplicationStatus().Drift = []appsapi.DriftCorrection{
		{Object: appsapi.ObjectReference{Kind: "Deployment", Name: "site"}, Managers: []string{"helm", "kubectl-edit"}, Count: 57, FirstTime: ago(5 * time.Minute), LastTime: ago(4 * time.Second),
			Fields: []appsapi.CorrectedField{{Path: "metadata.labels[app.kubernetes.io/part-of]", To: "site"}, {Path: "spec.paused", From: "true"}}},
	}
	quiet := fixtures.New("appservice", "quiet", `{image: "nginx:1.27"}`)
	elsewhere := fixtures.New("appservice", "site", `{image: "nginx:1.27"}`)
	elsewhere.App.SetNamespace("test")
	elsewhere.App.ApplicationStatus().Drift = []appsapi.DriftCorrection{
		{Object: appsapi.ObjectReference{Kind: "Service", Name: "site"}, Deleted: true, Count: 2, FirstTime: ago(3 * time.Hour), LastTime: ago(3 * time.Hour)},
	}
	return []*fixtures.Fixture{shop, site, quiet, elsewhere}
}

func runVerb(t *testing.T, all []*fixtures.Fixture, args ...string) (string, error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := Command(fixtures.Env(t, all...))
	cmd.SetArgs(append([]string{}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return out.String() + golden.StripProgress(errOut.String()), err
}

func TestGoldenOutput(t *testing.T) {
	for file, args := range map[string][]string{
		"shop.txt":       {"shop"},
		"wide.txt":       {"appstack/shop", "-o", "wide"},
		"namespace.txt":  nil,
		"all.txt":        {"-A"},
		"no-headers.txt": {"site", "--no-headers"},
		"quiet.txt":      {"quiet"},
		"shop.json":      {"shop", "-o", "json"},
		"shop.yaml":      {"shop", "-o", "yaml"},
		"quiet.json":     {"quiet", "-o", "json"},
		"jsonpath.txt":   {"shop", "-o", "jsonpath={.items[0].application.name} {.items[0].fields[1].path}"},
	} {
		t.Run(file, func(t *testing.T) {
			got, err := runVerb(t, newFixtures(), args...)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, file, got)
		})
	}
}

func TestErrors(t *testing.T) {
	for want, args := range map[string][]string{
		"-A lists the drift of all applications; omit the application, or use -n instead of -A":                               {"shop", "-A"},
		"application nope not found in namespace " + fixtures.Namespace + "; kubectl holdfast list -A shows all applications": {"nope"},
	} {
		if _, err := runVerb(t, newFixtures(), args...); err == nil || err.Error() != want {
			t.Errorf("%v: got %v", args, err)
		}
	}
}

// TestForbiddenKind lists the kinds that the user may read, and names the others.
func TestForbiddenKind(t *testing.T) {
	all := newFixtures()
	all[0].ForbiddenKinds = []string{"CloudManager"}
	got, err := runVerb(t, all)
	if err != nil || !strings.Contains(got, "Not listed: list CloudManagers") || !strings.Contains(got, "shop-api") {
		t.Errorf("%v\n%s", err, got)
	}
	all[0].ForbiddenKinds = []string{"CloudManager", "AppStack", "AppService"}
	if got, err = runVerb(t, all); err == nil {
		t.Errorf("no kind can be listed, but there is no error:\n%s", got)
	}
}

func TestCompletion(t *testing.T) {
	cmd := Command(fixtures.Env(t, newFixtures()...))
	names, _ := cmd.ValidArgsFunction(cmd, nil, "s")
	if diff := cmp.Diff([]string{"shop", "site"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestPageShowsTheOutput compares the example of the plugin page with the golden file.
func TestPageShowsTheOutput(t *testing.T) {
	page, err := os.ReadFile("../../../docs/user/plugin.md")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/shop.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "$ kubectl holdfast drift shop\n"+string(want)) {
		t.Errorf("docs/user/plugin.md does not contain\n%s", want)
	}
}
