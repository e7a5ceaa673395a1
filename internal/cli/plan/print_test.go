package plan

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
)

// samplePlans covers all outputs of a plan.
var samplePlans = []Plan{
	{Kind: "AppStack", Namespace: "shop", Name: "shop", Exists: true, Changes: []Change{
		{Action: Unchanged, Component: "web", Kind: "Service", Name: "shop-web"},
		{Step: 1, Action: Created, Component: "migrate", Kind: "Job", Name: "shop-migrate-5a5cb765be", Runs: true},
		{Step: 1, Action: Created, Kind: "ControllerRevision", Name: "shop-1"},
		{Step: 1, Action: Changed, Component: "db", Kind: "PersistentVolumeClaim", Name: "data-shop-db-0", Data: dataGrows,
			Fields: []Field{{Path: "spec.resources.requests.storage", Old: "1Gi", New: "2Gi"}}},
		{Step: 2, Action: Recreated, Component: "db", Kind: "StatefulSet", Name: "shop-db",
			Fields: []Field{{Path: "spec.volumeClaimTemplates", Old: []any{map[string]any{"size": "1Gi"}}, New: []any{map[string]any{"size": "2Gi"}}}}},
		{Step: 2, Action: Changed, Component: "api", Kind: "Deployment", Name: "shop-api", Restarts: 3, WaitsFor: []string{"migrate", "db"}, Fields: []Field{
			{Path: "metadata.annotations[apps.holdfast.dev/applied-hash]", Old: "0123", New: "4567"},
			{Path: "spec.template.metadata.annotations[apps.holdfast.dev/config-hash]", Old: "0123", Unknown: true},
			{Path: "spec.template.spec.containers[app].image", Old: "shop/api:1", New: "shop/api:2"},
			{Path: "spec.template.spec.containers[app].env[MODE]", New: map[string]any{"name": "MODE", "value": "prod"}},
			{Path: "spec.template.spec.containers[app].args", Old: []any{"--old"}}}},
		{Step: 3, Action: Changed, Component: "web", Kind: "Deployment", Name: "shop-web", Restarts: 1, WaitsFor: []string{"api"}, Estimated: true,
			Fields: []Field{{Path: "spec.replicas", Old: int64(1), New: int64(2)}}},
		{Step: 3, Action: Deleted, Component: "cache", Kind: "StatefulSet", Name: "shop-cache", BlockedBy: `Component "cache" was removed from the spec and is kept until no pod of "web" depends on it`},
		{Step: 4, Action: Changed, Component: "cache", Kind: "PersistentVolumeClaim", Name: "data-shop-cache-0", Data: dataRetained,
			Fields: []Field{{Path: "metadata.labels[apps.holdfast.dev/retained]", New: "true"}}},
		{Step: 4, Action: Deleted, Kind: "ControllerRevision", Name: "shop-0"},
		{Action: Rejected, Component: "taken", Kind: "Deployment", Name: "shop-taken", Reason: "Deployment shop/shop-taken exists and is not managed by Holdfast"},
	}, Problems: []Problem{{"old", "waits for taken"}}, Notes: []string{"No permission to read Secret creds: the plan assumes that it exists."}},
	{Kind: "AppStack", Namespace: "shop", Name: "gone", Exists: true, Changes: []Change{
		{Step: 1, Action: Deleted, Component: "db", Kind: "PersistentVolumeClaim", Name: "data-gone-db-0", Data: dataDeleted},
		{Step: 1, Action: Changed, Component: "new", Kind: "Secret", Name: "gone-new-auth", Data: dataReused, Fields: []Field{{Path: "metadata.labels[apps.holdfast.dev/retained]", Old: "true"}}},
		{Step: 1, Action: Changed, Kind: "ControllerRevision", Name: "gone-1", Fields: []Field{{Path: "revision", Old: int64(3), New: int64(7)}}},
	}},
	{Kind: "AppService", Namespace: "shop", Name: "same", Exists: true, Changes: []Change{{Action: Unchanged, Component: "same", Kind: "Deployment", Name: "same"}}},
	{Kind: "AppService", Namespace: "shop", Name: "kept", Exists: true, SpecChanges: true, Changes: []Change{{Action: Unchanged, Component: "kept", Kind: "Deployment", Name: "kept"}}},
	{Kind: "AppService", Namespace: "shop", Name: "off", Exists: true, Suspended: true},
}

func TestPrintPlans(t *testing.T) {
	cases := map[string]struct {
		format string
		width  int
	}{
		"changes.txt": {format: cli.FormatTable}, "changes-narrow.txt": {format: cli.FormatTable, width: 60},
		"changes-wide.txt": {format: cli.FormatWide}, "changes.json": {format: cli.FormatJSON}, "changes.yml": {format: cli.FormatYAML},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := printPlans(cli.Terminal{Writer: &out, Width: tc.width}, cli.Output{Format: tc.format}, samplePlans); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, out.String())
		})
	}
}

func TestHasChangesAndRejection(t *testing.T) {
	cases := map[string]struct {
		plan     Plan
		changes  bool
		rejected bool
	}{
		"all":       {plan: samplePlans[0], changes: true, rejected: true},
		"data":      {plan: samplePlans[1], changes: true},
		"unchanged": {plan: samplePlans[2]},
		"spec only": {plan: samplePlans[3], changes: true},
		"suspended": {plan: samplePlans[4]},
		"new":       {plan: Plan{SpecChanges: true}, changes: true},
		"refused":   {plan: Plan{Exists: true, Changes: []Change{{Action: Rejected, Reason: "x"}}}, rejected: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.plan.hasChanges(); got != tc.changes {
				t.Errorf("changes: %t", got)
			}
			if err := tc.plan.rejection(); (err != nil) != tc.rejected {
				t.Errorf("rejection: %v", err)
			}
		})
	}
}

func TestDiff(t *testing.T) {
	before := map[string]any{
		"same": "x", "changed": int64(1), "gone": map[string]any{"a": "b"}, "plain": []any{"a", "b"},
		"metadata":   map[string]any{"labels": map[string]any{"example.com/l": "1"}},
		"containers": []any{map[string]any{"name": "app", "image": "a:1"}, map[string]any{"name": "old", "image": "o:1"}},
		"ports":      []any{map[string]any{"port": int64(80), "protocol": "TCP", "targetPort": int64(1)}},
	}
	after := map[string]any{
		"same": "x", "changed": int64(2), "added": map[string]any{"c": "d"}, "plain": []any{"a"},
		"metadata":   map[string]any{"labels": map[string]any{"example.com/l": "2"}},
		"containers": []any{map[string]any{"name": "new", "image": "n:1"}, map[string]any{"name": "app", "image": "a:2"}},
		"ports":      []any{map[string]any{"port": int64(80), "protocol": "TCP", "targetPort": int64(2)}},
	}
	want := []Field{
		{Path: "added", New: map[string]any{"c": "d"}},
		{Path: "changed", Old: int64(1), New: int64(2)},
		{Path: "containers[app].image", Old: "a:1", New: "a:2"},
		{Path: "containers[new]", New: map[string]any{"name": "new", "image": "n:1"}},
		{Path: "containers[old]", Old: map[string]any{"name": "old", "image": "o:1"}},
		{Path: "gone", Old: map[string]any{"a": "b"}},
		{Path: "metadata.labels[example.com/l]", Old: "1", New: "2"},
		{Path: "plain", Old: []any{"a", "b"}, New: []any{"a"}},
		{Path: "ports[80/TCP].targetPort", Old: int64(1), New: int64(2)},
	}
	if d := cmp.Diff(want, diff(before, after)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestVersionSkewWarning(t *testing.T) {
	operator := func(label, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: cli.OperatorNamespace, Name: cli.OperatorName}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: image}}}}}}
		if label != "" {
			d.Labels = map[string]string{"app.kubernetes.io/version": label}
		}
		return d
	}
	cases := map[string]struct {
		plugin   string
		operator *appsv1.Deployment
		want     bool
	}{
		"same version":         {plugin: "v1.2.0", operator: operator("", "registry:5000/holdfast/operator:1.2.0")},
		"other version":        {plugin: "v1.2.0", operator: operator("", "holdfast/operator:v1.3.0"), want: true},
		"label overrides tag":  {plugin: "1.2.0", operator: operator("1.2.0", "holdfast/operator:v1.3.0")},
		"development plugin":   {plugin: "dev", operator: operator("", "holdfast/operator:v1.3.0")},
		"development operator": {plugin: "v1.2.0", operator: operator("", "holdfast/operator:dev")},
		"no tag":               {plugin: "v1.2.0", operator: operator("", "registry:5000/holdfast/operator@sha256:00")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			warnVersionSkew(t.Context(), fake.NewClientBuilder().WithObjects(tc.operator).Build(), tc.plugin, &out)
			if got := out.String(); (got != "") != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The API server repeats rejected values.
func TestPasswordIsRedacted(t *testing.T) {
	app := func(password string) declaredApp {
		return declaredApp{manifest: &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"db": map[string]any{"rootPass": password}}}}}
	}
	cases := map[string]struct{ password, text, want string }{
		"password": {"top-secret", `spec.db.rootPass: Invalid value: "top-secret": too short, top-secret`, `spec.db.rootPass: Invalid value: (redacted): too short, (redacted)`},
		"short":    {"a", `Invalid value: "a": a password`, `Invalid value: (redacted): a password`},
		"none":     {"", "spec.db: x", "spec.db: x"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := redactPassword(errors.New(tc.text), app(tc.password)).Error(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFormatValue(t *testing.T) {
	cases := map[string]struct {
		value  any
		maxLen int
		want   string
	}{
		"word": {"x", 0, "x"}, "empty": {"", 0, `""`}, "lines": {"a\nb", 0, `"a\nb"`}, "number": {int64(3), 0, "3"},
		"map": {map[string]any{"a": "b"}, 0, `{"a":"b"}`}, "long": {strings.Repeat("x", 30), 20, strings.Repeat("x", 17) + "..."},
	}
	for name, tc := range cases {
		if got := formatValue(tc.value, tc.maxLen); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
