package doctor

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// The checked permissions match the roles in config/rbac.
func TestRequiredPermissionsMatchInstalledRoles(t *testing.T) {
	content, err := os.ReadFile("../../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	granted := map[string][]string{}
	for doc := range strings.SplitSeq(string(content), "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same fields
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		granted[role.Kind] = sortedAccess(role.Rules)
	}
	if diff := cmp.Diff(granted["ClusterRole"], sortedAccess(slices.Concat(applicationRules, clusterRules))); diff != "" {
		t.Errorf("ClusterRole (-config/rbac +checked):\n%s", diff)
	}
	if diff := cmp.Diff(granted["Role"], sortedAccess(leaseNamespaceRules)); diff != "" {
		t.Errorf("Role (-config/rbac +checked):\n%s", diff)
	}
	if len(granted["ClusterRole"]) < 50 || len(granted["Role"]) < 5 {
		t.Errorf("config/rbac has too few permissions: %v", granted)
	}
}

func sortedAccess(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, q := range accessAttributes("", rules) {
		out = append(out, describeAccess(&q))
	}
	slices.Sort(out)
	return out
}

func TestParseOperatorInfo(t *testing.T) {
	cases := map[string]struct {
		account string
		args    []string
		want    operatorInfo
	}{
		"as installed":    {account: "holdfast-operator", want: operatorInfo{serviceAccount: "holdfast-operator", leaseNamespace: "home"}},
		"some namespaces": {args: []string{"--namespaces=a,b", "-v"}, want: operatorInfo{serviceAccount: "default", namespaces: []string{"a", "b"}, leaseNamespace: "home"}},
		"a Lease elsewhere": {account: "x", args: []string{"--leader-election-namespace=there", "--leader-elect=true"},
			want: operatorInfo{serviceAccount: "x", leaseNamespace: "there"}},
		"no leader": {account: "x", args: []string{"--leader-elect=false"}, want: operatorInfo{serviceAccount: "x"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "home"}}
			d.Spec.Template.Spec = corev1.PodSpec{ServiceAccountName: tc.account, Containers: []corev1.Container{{Args: tc.args}}}
			if diff := cmp.Diff(tc.want, parseOperatorInfo(d), cmp.AllowUnexported(operatorInfo{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPrintReport(t *testing.T) {
	passed := Check{Name: "Kubernetes", Result: OK, Message: "v1.34.1"}
	failed := Check{Name: "operator", Result: Problem, Message: "Deployment holdfast-system/holdfast-operator not found", Fix: installHint}
	unchecked := Check{Name: "leader", Result: Unknown, Message: "not checked: operator not found", Fix: "see above"}
	cases := map[string]struct {
		checks []Check
		format string
		width  int
		code   int
	}{
		"fine.txt":    {checks: []Check{passed}, code: 0},
		"problem.txt": {checks: []Check{passed, failed, unchecked}, code: 2},
		"narrow.txt":  {checks: []Check{passed, failed, unchecked}, width: 60, code: 2},
		"wide.txt":    {checks: []Check{passed, failed, unchecked}, format: "wide", code: 2},
		"unseen.json": {checks: []Check{passed, unchecked}, format: "json", code: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := printReport(cli.Output{Format: tc.format}, tc.checks, cli.Terminal{Writer: &out, Width: tc.width})
			if got := cli.ExitCode(err); got != tc.code {
				t.Errorf("exit code %d (%v), want %d", got, err, tc.code)
			}
			golden.Check(t, name, out.String())
		})
	}
	if err := printReport(cli.Output{}, []Check{passed, unchecked}, cli.Terminal{Writer: &bytes.Buffer{}}); errors.Is(err, cli.ErrNotReady) {
		t.Error("a check that could not be completed counts as a problem")
	}
}

func TestNamespaceIsManaged(t *testing.T) {
	for name, tc := range map[string]struct {
		watched []string
		want    []Check
	}{
		"all namespaces":   {nil, nil},
		"this namespace":   {[]string{"blog", "shop"}, []Check{{Name: "namespace shop", Result: OK, Message: "managed by the operator"}}},
		"other namespaces": {[]string{"a", "b"}, []Check{{Name: "namespace shop", Result: Problem, Message: "the operator manages only namespaces a, b: applications in namespace shop are not reconciled", Fix: "add the namespace to --namespaces of the operator, or use another one with -n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := checker{callerNamespace: "shop", operatorInfo: operatorInfo{namespaces: tc.watched}}
			e.checkNamespace()
			if diff := cmp.Diff(tc.want, e.checks); diff != "" {
				t.Errorf("checks (-want +got):\n%s", diff)
			}
		})
	}
}
