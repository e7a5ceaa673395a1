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

// execute runs the command without a cluster.
func runVerb(in io.Reader, args ...string) (out, errOut string, err error) {
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
			got, _, err := runVerb(nil, args...)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got)
		})
	}
}

func TestOtherKindsAreSkipped(t *testing.T) {
	_, got, err := runVerb(nil, "-f", "testdata/several.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "testdata/several.yaml: document 2 (ConfigMap) is not a Holdfast kind; skipped\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// The documentation shows the plans of the samples.
func TestOfflineSamples(t *testing.T) {
	cases := map[string][]string{
		"appservice.yaml": {"AppService web, 1 component\n", "1     web        Service  Deployment web, Service web, PodDisruptionBudget web  -\n", "  applied at once  web\n", "\nDeletion order: all components at once."},
		"appstack.yaml": {
			"AppStack shop, 3 components\n", "  applied at once  migrate\n", "  waiting          api for migrate, web for api\n",
			"\nDeletion order: web, then api, then migrate.\n",
		},
		"cloudmanager.yaml": {
			"CloudManager cloudmanager-sample, 3 components\n", "1     db  ", "2     identity  ", "3     front  ",
			"Deployment cm-identity  ", "Deployment ake-front, Service ake-front  ",
			"  applied at once  db\n", "  waiting          identity for db, front for identity\n",
			"\nDeletion order: front, then identity, then db.\n",
		},
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			got, _, err := runVerb(nil, "-f", filepath.Join("../../../config/samples", file))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("%q is missing in\n%s", w, got)
				}
			}
		})
	}
}

func TestInvalidManifests(t *testing.T) {
	const header = "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  components:\n"
	cases := map[string]struct{ manifest, want string }{
		"dependency cycle": {
			manifest: header + "  - {name: a, dependsOn: [b], service: {image: x}}\n  - {name: b, dependsOn: [a], service: {image: x}}\n",
			want:     "standard input: document 1: AppStack shop: Components have a dependency cycle: a -> b -> a; remove one of these dependencies",
		},
		"unknown field": {
			manifest: header + "  - {name: a, service: {image: x, port: 80}}\n",
			want:     `standard input: document 1: strict decoding error: unknown field "spec.components[0].service.port"; kubectl explain appstack.spec lists the available fields`,
		},
		"number in place of a string": {
			manifest: header + "  - {name: a, database: {version: 11.8, storage: {size: 1Gi}}}\n",
			want:     `standard input: document 1: spec.components[0].database.version: must be a string, not a number; quote it`,
		},
		"boolean in place of a string": {
			manifest: header + "  - {name: a, service: {image: x, env: [{name: A, value: true}]}}\n",
			want:     `standard input: document 1: spec.components[0].service.env[0].value: must be a string, not a boolean; quote it`,
		},
		"quantities": {
			manifest: header + "  - {name: a, stateful: {image: x, storage: [{name: d, mountPath: /d, size: 1GB}], resources: {requests: {cpu: 1x}}}}\n",
			want: `standard input: document 1: spec.components[0].stateful.resources.requests.cpu: "1x" is not a quantity; use a quantity such as 500m, 2 or 1Gi` + "\n  " +
				`spec.components[0].stateful.storage[0].size: "1GB" is not a quantity; use 1Gi (binary) or 1G (decimal)`,
		},
		"text in place of other types": {
			manifest: header + `  - {name: a, dependsOn: b, service: {image: [x], replicas: "3", autoscaling: 1.5, ports: [{port: 1.5}], suspend: "yes", resources: none}}`,
			want: "standard input: document 1: " + strings.Join([]string{
				`spec.components[0].dependsOn: must be a list, not a string`,
				`spec.components[0].service.image: must be a string, not a list`,
				`spec.components[0].service.resources: must be an object, not a string`,
				`spec.components[0].service.replicas: must be a whole number, not a string; remove the quotes`,
				`spec.components[0].service.ports[0].port: must be a whole number, not a fraction`,
				`spec.components[0].service.autoscaling: must be an object, not a number`,
			}, "\n  "),
		},
		"duplicate field": {
			manifest: header + "  - {name: a, name: b, service: {image: x}}\n",
			want:     `standard input: document 1: strict decoding error: yaml: unmarshal errors:` + "\n" + `  line 6: key "name" already set in map; kubectl explain appstack.spec lists the available fields`,
		},
		"invalid YAML": {
			manifest: "a: [\n",
			want:     "standard input: document 1: error converting YAML to JSON: yaml: line 1: did not find expected node content; fix the YAML",
		},
		"not an object": {
			manifest: "hello\n",
			want:     "standard input: document 1: apiVersion or kind is missing or invalid; use apiVersion: apps.holdfast.dev/v1alpha1 and kind: AppStack, AppService or CloudManager",
		},
		"invalid apiVersion": {
			manifest: "{apiVersion: a/b/c, kind: AppStack}",
			want:     "standard input: document 1: apiVersion or kind is missing or invalid; use apiVersion: apps.holdfast.dev/v1alpha1 and kind: AppStack, AppService or CloudManager",
		},
		"unsupported version": {
			manifest: "{apiVersion: apps.holdfast.dev/v2, kind: AppStack}",
			want:     "standard input: document 1: apps.holdfast.dev/v2 AppStack is not supported; use apps.holdfast.dev/v1alpha1 and kind AppStack, AppService or CloudManager",
		},
		"list": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStackList, items: []}",
			want:     "standard input: document 1: AppStackList is not an application; use AppStack, AppService or CloudManager",
		},
		"missing name": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppService, spec: {image: x}}",
			want:     "standard input: document 1: metadata.name is required",
		},
		"no components": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: AppStack, metadata: {name: shop}}",
			want:     "standard input: document 1: spec.components must have at least one component",
		},
		"component without a name": {
			manifest: header + "  - {service: {image: x}}\n",
			want:     "standard input: document 1: the name of a component is required",
		},
		"component without a type": {
			manifest: header + "  - {name: a}\n",
			want:     `standard input: document 1: component "a" must set exactly one of service, stateful, database and job`,
		},
		"two components with one name": {
			manifest: header + "  - {name: web, service: {image: x}}\n  - {name: web, service: {image: z}}\n",
			want:     `standard input: document 1: two components are called "web"; rename one of them`,
		},
		"component with two types": {
			manifest: header + "  - {name: a, service: {image: x}, job: {image: x}}\n",
			want:     `standard input: document 1: component "a" must set exactly one of service, stateful, database and job`,
		},
		"empty manifest": {
			manifest: "# only a comment\n",
			want:     "standard input: no AppStack, AppService or CloudManager found; specify a manifest with an application",
		},
		"unknown field of a CloudManager": {
			manifest: "{apiVersion: apps.holdfast.dev/v1alpha1, kind: CloudManager, metadata: {name: cm}, spec: {db: {rootPassword: x}}}",
			want:     `standard input: document 1: strict decoding error: unknown field "spec.db.rootPassword"; kubectl explain cloudmanager.spec lists the available fields`,
		},
		"other kinds only": {
			manifest: "{apiVersion: v1, kind: ConfigMap}",
			want:     "standard input: no AppStack, AppService or CloudManager found; specify a manifest with an application",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := runVerb(strings.NewReader(tc.manifest), "-f", "-")
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
		"no file":            {want: "no manifest specified; use -f FILE, -f DIRECTORY or -k DIRECTORY, or -f - for standard input"},
		"argument":           {args: []string{"shop.yaml"}, want: `unknown command "shop.yaml" for "plan"`},
		"unsupported output": {args: []string{"-f", "-", "-o", "name"}, want: `output format "name" is not supported; use one of: table, wide, json, yaml`},
		"missing file":       {args: []string{"-f", "testdata/none.yaml"}, want: "stat testdata/none.yaml: no such file or directory; specify the path of a manifest or of a directory, or - for standard input"},
		"read error":         {args: []string{"-f", "-"}, in: failingReadWriter{}, want: "read standard input: broken; check that it is a text file"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, _, err := runVerb(tc.in, tc.args...); err == nil || err.Error() != tc.want {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
}

type failingReadWriter struct{}

func (failingReadWriter) Read([]byte) (int, error)  { return 0, errors.New("broken") }
func (failingReadWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// An invalid application does not stop the others, and its error has the type *Invalid.
func TestInvalidApplicationDoesNotHideOthers(t *testing.T) {
	good, err := os.ReadFile("testdata/stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bad := "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: bad}\nspec: {components: [{name: a, dependsOn: [b], service: {image: x}}]}\n"
	out, _, err := runVerb(strings.NewReader(bad+"---\n"+string(good)), "-f", "-")
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
