package plan

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// execute runs the verb as a person would, without a cluster.
func execute(in io.Reader, args ...string) (out, errOut string, err error) {
	var o, e bytes.Buffer
	cmd := Command(&cli.Env{})
	cmd.SetIn(in)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetArgs(append(args, "--offline"))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return o.String(), e.String(), err
}

func TestOfflineOutput(t *testing.T) {
	cases := map[string][]string{
		"stack.txt":    {"-f", "testdata/stack.yaml"},
		"stack.json":   {"-f", "testdata/stack.yaml", "-o", "json"},
		"stack.yml":    {"--filename=testdata/stack.yaml", "--output=yaml"},
		"several.txt":  {"-f", "testdata/several.yaml"},
		"several.json": {"-f", "testdata/several.yaml", "-o", "json"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			got, _, err := execute(nil, args...)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got)
		})
	}
}

func TestOtherKindsAreSkipped(t *testing.T) {
	_, got, err := execute(nil, "-f", "testdata/several.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "testdata/several.yaml: document 2 (ConfigMap) is not Holdfast's and is left out\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The samples are what people try first, and the documentation shows their plan.
func TestOfflineSamples(t *testing.T) {
	cases := map[string][]string{
		"appservice.yaml": {"AppService web, 1 component\n", "1     web        Service  Deployment web, Service web, PodDisruptionBudget web  -\n", "  applied at once  web\n", "\nDeletion takes everything at once"},
		"appstack.yaml": {
			"AppStack shop, 3 components\n", "  applied at once  migrate\n", "  waiting          api for migrate, web for api\n",
			"\nDeletion goes the other way: web, then api, then migrate.\n",
		},
		"cloudmanager.yaml": {
			"CloudManager cloudmanager-sample, 3 components\n", "1     db  ", "2     identity  ", "3     front  ",
			"Deployment cm-identity  ", "Deployment ake-front, Service ake-front  ",
			"  applied at once  db\n", "  waiting          identity for db, front for identity\n",
			"\nDeletion goes the other way: front, then identity, then db.\n",
		},
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			got, _, err := execute(nil, "-f", filepath.Join("../../../config/samples", file))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("there is no %q in\n%s", w, got)
				}
			}
		})
	}
}

func TestInvalidManifests(t *testing.T) {
	const header = "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  components:\n"
	cases := map[string]struct{ manifest, want string }{
		"a circle": {
			manifest: header + "  - {name: a, dependsOn: [b], service: {image: x}}\n  - {name: b, dependsOn: [a], service: {image: x}}\n",
			want:     "standard input: document 1: AppStack shop: Components depend on each other in a circle: a -> b -> a; remove one of these dependencies",
		},
		"an unknown field": {
			manifest: header + "  - {name: a, service: {image: x, port: 80}}\n",
			want:     `standard input: document 1: strict decoding error: unknown field "spec.components[0].service.port"; kubectl explain appstack.spec lists the fields there are`,
		},
		"a field twice": {
			manifest: header + "  - {name: a, name: b, service: {image: x}}\n",
			want:     `standard input: document 1: strict decoding error: yaml: unmarshal errors:` + "\n" + `  line 6: key "name" already set in map; kubectl explain appstack.spec lists the fields there are`,
		},
		"no YAML": {
			manifest: "a: [\n",
			want:     "standard input: document 1: error converting YAML to JSON: yaml: line 1: did not find expected node content; correct the YAML",
		},
		"not an object": {
			manifest: "hello\n",
			want:     "standard input: document 1: apiVersion and kind are missing or wrong; begin it with apiVersion: apps.holdfast.dev/v1alpha1 and kind: AppStack, AppService or CloudManager",
		},
		"an apiVersion that is none": {
			manifest: "{apiVersion: a/b/c, kind: AppStack}",
			want:     "standard input: document 1: apiVersion and kind are missing or wrong; begin it with apiVersion: apps.holdfast.dev/v1alpha1 and kind: AppStack, AppService or CloudManager",
		},
		"a version that is not there": {
			manifest: "{apiVersion: apps.holdfast.dev/v2, kind: AppStack}",
			want:     "standard input: document 1: apps.holdfast.dev/v2 AppStack is not known; use apps.holdfast.dev/v1alpha1, and kind AppStack, AppService or CloudManager",
		},
		"a list": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStackList, items: []}",
			want:     "standard input: document 1: AppStackList is no application; give an AppStack, AppService or CloudManager",
		},
		"no name": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, spec: {image: x}}",
			want:     "standard input: document 1: metadata.name is missing; children are named after it, so give it one",
		},
		"no components": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}}",
			want:     "standard input: document 1: spec.components is empty; add a component",
		},
		"a component without a name": {
			manifest: header + "  - {service: {image: x}}\n",
			want:     "standard input: document 1: a component has no name; give it one",
		},
		"a component of no type": {
			manifest: header + "  - {name: a}\n",
			want:     `standard input: document 1: component "a" is not exactly one of service, stateful, database and job; say what it is`,
		},
		"a component of two types": {
			manifest: header + "  - {name: a, service: {image: x}, job: {image: x}}\n",
			want:     `standard input: document 1: component "a" is not exactly one of service, stateful, database and job; say what it is`,
		},
		"nothing in it": {
			manifest: "# only a comment\n",
			want:     "standard input: there is no AppStack, AppService or CloudManager in it; give a manifest of one",
		},
		"a wrong field of a CloudManager": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: CloudManager, metadata: {name: cm}, spec: {db: {rootPassword: x}}}",
			want:     `standard input: document 1: strict decoding error: unknown field "spec.db.rootPassword"; kubectl explain cloudmanager.spec lists the fields there are`,
		},
		"nothing of ours in it": {
			manifest: "{apiVersion: v1, kind: ConfigMap}",
			want:     "standard input: there is no AppStack, AppService or CloudManager in it; give a manifest of one",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := execute(strings.NewReader(tc.manifest), "-f", "-")
			if err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if out != "" {
				t.Errorf("printed %q", out)
			}
		})
	}
}

func TestUsageErrors(t *testing.T) {
	cases := map[string]struct {
		args []string
		in   io.Reader
		want string
	}{
		"no file":         {want: "no manifest given; name one with -f FILE, or give - for standard input"},
		"an argument":     {args: []string{"shop.yaml"}, want: `unknown command "shop.yaml" for "plan"`},
		"another output":  {args: []string{"-f", "-", "-o", "name"}, want: `output "name" is not known; use -o table, wide, json, yaml`},
		"no such file":    {args: []string{"-f", "testdata/none.yaml"}, want: "open testdata/none.yaml: no such file or directory; give the path of a manifest, or - for standard input"},
		"a broken stream": {args: []string{"-f", "-"}, in: failingReadWriter{}, want: "read standard input: broken; check that it is a text file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, _, err := execute(tc.in, tc.args...); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

type failingReadWriter struct{}

func (failingReadWriter) Read([]byte) (int, error)  { return 0, errors.New("broken") }
func (failingReadWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// One that cannot be planned does not hide the others, and the error can be told apart.
func TestInvalidApplicationDoesNotHideOthers(t *testing.T) {
	good, err := os.ReadFile("testdata/stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bad := "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: bad}\nspec: {components: [{name: a, dependsOn: [b], service: {image: x}}]}\n"
	out, _, err := execute(strings.NewReader(bad+"---\n"+string(good)), "-f", "-")
	if !strings.HasPrefix(out, "AppStack shop/shop, 6 components\n") {
		t.Errorf("printed %q", out)
	}
	var invalid *rollout.InvalidSpec
	if !errors.As(err, &invalid) {
		t.Errorf("error %v, want an *Invalid", err)
	}
}

func TestWriteErrorsAreReturned(t *testing.T) {
	for _, output := range []string{"table", "json", "yaml"} {
		if err := printOrders(output, []Order{{Kind: "AppStack", Name: "shop"}}, failingReadWriter{}); err == nil {
			t.Errorf("-o %s: no error", output)
		}
	}
}
