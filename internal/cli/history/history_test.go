package history

import (
	"bytes"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// specs are the specs of the revisions.
var specs = []string{
	`{components: [{name: web, service: {image: "nginx:1", ports: [{port: 80}]}}]}`,
	`{components: [{name: web, service: {image: "nginx:2", ports: [{port: 80}], env: [{name: MODE, value: prod}]}}]}`,
	`{components: [{name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /d, size: 1Gi}]}}, {name: web, bindings: [{component: db}], service: {image: "nginx:3", replicas: 3, ports: [{port: 80}], env: [{name: MODE, value: test}], config: {files: [{path: /etc/app.yaml, content: "a: 1\nb: 2\n"}]}}}]}`,
	`{components: [{name: db, stateful: {image: "db:1", storage: [{name: data, mountPath: /d, size: 2Gi}]}}, {name: web, bindings: [{component: db}], service: {image: "nginx:3", replicas: 3, ports: [{port: 80}], env: [{name: MODE, value: test}], config: {files: [{path: /etc/app.yaml, content: "a: 1\n"}]}}}]}`,
}

// newShop returns a stack with the last of these specs and one replica less.
func newShop(t *testing.T) (*appsapi.AppStack, []reader.Revision) {
	t.Helper()
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "shop"}}
	if err := yaml.Unmarshal([]byte(strings.Replace(specs[3], "replicas: 3", "replicas: 2", 1)), &app.Spec); err != nil {
		t.Fatal(err)
	}
	var all []reader.Revision
	for i, spec := range specs {
		r := reader.Revision{
			Number: int64(i + 2), Name: "shop-1a2b3c4d5" + string(rune('a'+i)), Created: now.Add(-time.Duration(30-7*i) * time.Hour),
			Healthy: i != 2, Current: i == 3,
		}
		content, err := yaml.YAMLToJSON([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		if err := utiljson.Unmarshal(content, &r.Spec); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return app, all
}

func TestPrint(t *testing.T) {
	app, all := newShop(t)
	render := func(format string, width int, render func(cli.Output, cli.Terminal) error) func() (string, error) {
		return func() (string, error) {
			var out bytes.Buffer
			err := render(cli.Output{Format: format}, cli.Terminal{Writer: &out, Width: width})
			return out.String(), err
		}
	}
	list := func(o cli.Output, out cli.Terminal) error { return printList(o, newList(app, all), now, out) }
	spec := func(o cli.Output, out cli.Terminal) error { return printSpec(o, app, all, 3, out) }
	diff := func(pair string) func(cli.Output, cli.Terminal) error {
		return func(o cli.Output, out cli.Terminal) error { return printDiff(o, app, all, pair, out) }
	}
	cases := map[string]func() (string, error){
		"list.txt":        render("table", 0, list),
		"list-narrow.txt": render("table", 60, list),
		"list-wide.txt":   render("wide", 0, list),
		"list.json":       render("json", 0, list),
		"list-name.txt":   render("name", 0, list),
		"spec.txt":        render("table", 0, spec),
		"spec.yaml":       render("yaml", 0, spec),
		"diff-two.txt":    render("table", 0, diff("3,5")),
		"diff-back.txt":   render("table", 60, diff("5,3")),
		"diff-now.txt":    render("table", 0, diff("5")),
		"diff-same.txt":   render("table", 0, diff("5,5")),
		"diff.yaml":       render("yaml", 0, diff("2,3")),
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := run()
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got)
		})
	}
}

func TestInvalidRevisionNumbers(t *testing.T) {
	app, all := newShop(t)
	cases := map[string]string{
		"9":   "AppStack prod/shop has no revision 9; list its revisions: kubectl holdfast history shop -n prod",
		"2,9": "AppStack prod/shop has no revision 9; list its revisions: kubectl holdfast history shop -n prod",
		"a":   `invalid revision "a"; use --diff N or --diff N,M`,
		"2,":  `invalid revision ""; use --diff N or --diff N,M`,
	}
	for pair, want := range cases {
		if err := printDiff(cli.Output{}, app, all, pair, cli.Terminal{Writer: &bytes.Buffer{}}); err == nil || err.Error() != want {
			t.Errorf("--diff %s: got %v, want %s", pair, err, want)
		}
	}
	if err := printSpec(cli.Output{}, app, all, 9, &bytes.Buffer{}); err == nil || err.Error() != cases["9"] {
		t.Errorf("--revision 9: got %v, want %s", err, cases["9"])
	}
}

// Revisions should not contain passwords; if they do, the output is still redacted.
func TestPasswordsAreRedacted(t *testing.T) {
	app := &appsapi.CloudManager{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "cm"}}
	app.Spec.DB.RootPass = "geheim"
	all := []reader.Revision{
		{Number: 1, Spec: revision.Spec{"db": map[string]any{"rootPass": "geheim"}}},
		{Number: 2, Spec: revision.Spec{"db": map[string]any{"rootPass": "anders"}}},
	}
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		var out bytes.Buffer
		terminal, o := cli.Terminal{Writer: &out}, cli.Output{Format: format}
		for _, err := range []error{printList(o, newList(app, all), now, terminal), printSpec(o, app, all, 1, terminal), printDiff(o, app, all, "1,2", terminal), printDiff(o, app, all, "1", terminal)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(out.String(), "(hidden)") || strings.Contains(out.String(), "geheim") || strings.Contains(out.String(), "anders") {
			t.Errorf("-o %s prints\n%s", format, out.String())
		}
	}
}
