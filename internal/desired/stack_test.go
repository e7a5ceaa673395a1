package desired

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

var stack = Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "11111111-2222-3333-4444-555555555555"}

// stackSpec is also what the contract test of package apply sends.
var stackSpec = func() string {
	spec, err := os.ReadFile("testdata/specs/stack.yaml")
	must(err)
	return string(spec)
}()

func content(hash string) Content {
	return Content{UID: "uid", ResourceVersion: "7", Hash: hash}
}

var known = Contents{
	{Kind: "ConfigMap", Name: "all"}:                            content("h1"),
	{Kind: "ConfigMap", Name: "settings", Keys: "mode"}:         content("h2"),
	{Kind: "Secret", Name: "web", Keys: "more,token"}:           content("h3"),
	{Kind: "Secret", Name: "unrelated", Keys: "and not asked "}: content("h4"),
}

func components(t *testing.T, spec string) []appsapi.Component {
	t.Helper()
	var out []appsapi.Component
	if err := yaml.UnmarshalStrict([]byte(spec), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestGoldenStacks(t *testing.T) {
	for _, name := range []string{"stack.yaml", "data.yaml"} {
		t.Run(name, func(t *testing.T) {
			spec, err := os.ReadFile("testdata/specs/" + name)
			must(err)
			var got bytes.Buffer
			for _, c := range For(stack, components(t, string(spec)), Known{Contents: known}) {
				for _, child := range c.Children {
					got.WriteString("---\n")
					got.Write(render(t, child, nil))
				}
			}
			file := "testdata/" + name
			if *update {
				must(os.WriteFile(file, got.Bytes(), 0o644))
			}
			want, err := os.ReadFile(file)
			must(err)
			if diff := cmp.Diff(string(want), got.String()); diff != "" {
				t.Errorf("a difference in a pod template restarts every user's pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestForStack(t *testing.T) {
	all := For(stack, components(t, stackSpec), Known{Contents: known})
	web, migrate, nightly := all[0], all[3], all[4]
	if diff := cmp.Diff([]string{"auth", "migrate", "the-api"}, web.DependsOn); diff != "" {
		t.Error(diff)
	}
	if web.Type != "Service" || migrate.Type != "Job" || migrate.GatesNobody || !nightly.GatesNobody || nightly.JobSpec != "" {
		t.Errorf("got %+v", all)
	}
	if want := "shop-migrate-" + migrate.JobSpec; migrate.Workload.Name != want || len(migrate.JobSpec) != 10 {
		t.Errorf("the Job is called %q, want %q", migrate.Workload.Name, want)
	}
	if nightly.ProgressDeadlineSeconds != 60 || nightly.Workload.Name != "shop-nightly" || nightly.Workload.Kind.Kind != "CronJob" {
		t.Errorf("got %+v", nightly)
	}
}

// TestNamesOfJobs keeps the hash of the spec in names that are too long, and leaves room
// for what Kubernetes appends to those of CronJobs.
func TestNamesOfJobs(t *testing.T) {
	long := stack
	long.Name = strings.Repeat("n", 60)
	spec := components(t, `[{name: migrate, job: {image: a}}, {name: nightly, job: {image: a, schedule: "@daily"}}]`)
	all := For(long, spec, Known{})
	once, often := all[0], all[1]
	if name := once.Workload.Name; len(name) > 63 || !strings.HasSuffix(name, "-"+once.JobSpec) {
		t.Errorf("the Job is called %q", name)
	}
	if name := often.Workload.Name; len(name) > 52 {
		t.Errorf("the CronJob is called %q", name)
	}
}

// TestOwnSpecOfJobs is what a job runs once for: neither its bindings nor what it depends on.
func TestOwnSpecOfJobs(t *testing.T) {
	of := func(spec string) string { return For(stack, components(t, spec), Known{})[0].JobSpec }
	base := of(`[{name: m, job: {image: a}}]`)
	for spec, same := range map[string]bool{
		`[{name: m, dependsOn: [b], job: {image: a}}, {name: b, service: {image: b}}]`:                                 true,
		`[{name: m, bindings: [{component: b}], job: {image: a}}, {name: b, service: {image: b, ports: [{port: 1}]}}]`: true,
		`[{name: m, job: {image: b}}]`:                  false,
		`[{name: m, job: {image: a, backoffLimit: 0}}]`: false,
		`[{name: m, job: {image: a, args: [x]}}]`:       false,
	} {
		if (of(spec) == base) != same {
			t.Errorf("%s: the same is %v", spec, !same)
		}
	}
}

// TestJobIsNeverChanged renders a Job that exists with other bindings, as somebody else's
// version of Holdfast might: what it runs stays what it is, and only its labels are held.
func TestJobIsNeverChanged(t *testing.T) {
	child := For(stack, components(t, stackSpec), Known{Contents: known})[3].Children[0]
	first, err := child.Render(nil)
	must(err)
	body, err := first.Patch("", "1")
	must(err)
	live := &batchv1.Job{}
	must(json.Unmarshal(body, live))
	live.Spec.Template.Spec.Containers[0].Env[0].Value = "elsewhere"
	live.Spec.Template.Labels["batch.kubernetes.io/job-name"] = live.Name

	moved := strings.ReplaceAll(strings.ReplaceAll(stackSpec, "backend", "other"), "dependsOn: [auth]", "dependsOn: [the-api]")
	again, err := For(stack, components(t, moved), Known{})[3].Children[0].Render(live)
	must(err)
	if again.Hash() != live.Annotations["apps.holdfast.dev/applied"] {
		t.Error("another binding is another wish")
	}
	if again.ReplacesPods(live) {
		t.Error("it would replace the pods of a job")
	}
	fields, err := again.Fields()
	must(err)
	if _, held := fields["spec"].(map[string]any)["template"]; held {
		t.Error("the pods of a job that exists are held")
	}
	body, err = again.Patch(live.UID, "2")
	must(err)
	sent := &batchv1.Job{}
	must(json.Unmarshal(body, sent))
	if diff := cmp.Diff(live.Spec.Template, sent.Spec.Template); diff != "" {
		t.Errorf("something else is sent than what is there, which the API server refuses:\n%s", diff)
	}
}

// TestConsumed decides which content pods are made with.
func TestConsumed(t *testing.T) {
	ref := Ref{Kind: "Secret", Name: "web"}
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"apps.holdfast.dev/refs": `[{"kind":"Secret","name":"web","uid":"uid","resourceVersion":"3","hash":"old"}]`}}}
	cases := map[string]struct {
		known Contents
		live  metav1.Object
		want  []record
	}{
		"new":                       {Contents{ref: content("new")}, nil, []record{{ref, content("new")}}},
		"not there":                 {nil, nil, nil},
		"changed":                   {Contents{ref: content("new")}, live, []record{{ref, content("new")}}},
		"written without a change":  {Contents{ref: content("old")}, live, []record{{ref, Content{"uid", "3", "old"}}}},
		"gone":                      {nil, live, []record{{ref, Content{"uid", "3", "old"}}}},
		"nonsense in an annotation": {nil, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"apps.holdfast.dev/refs": "{"}}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, consumed([]Ref{ref}, tc.known, tc.live)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFormer keeps in mind what pods on their way out may need.
func TestFormer(t *testing.T) {
	rolling := appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1}
	cases := map[string]struct {
		dependsOn, dependedOn string
		status                appsv1.DeploymentStatus
		edges, want           []string
	}{
		"nothing changed":                 {dependsOn: "a,b", edges: []string{"a", "b"}},
		"about to lose one":               {dependsOn: "a,x", edges: []string{"a"}, want: []string{"x"}},
		"lost one, old pods are there":    {dependsOn: "a", dependedOn: "x", status: rolling, edges: []string{"a"}, want: []string{"x"}},
		"lost one, no old pod is left":    {dependsOn: "a", dependedOn: "x", edges: []string{"a"}},
		"lost another meanwhile":          {dependsOn: "y", dependedOn: "x", status: rolling, want: []string{"x", "y"}},
		"still in the spec, not needed":   {dependsOn: "a,b", edges: []string{"a"}, want: []string{"b"}},
		"lost one that came back":         {dependsOn: "a", dependedOn: "b", status: rolling, edges: []string{"a"}, want: []string{"b"}},
		"the same one in both":            {dependsOn: "x", dependedOn: "x", status: rolling, want: []string{"x"}},
		"a change that nobody has seen":   {dependsOn: "", dependedOn: "x", status: appsv1.DeploymentStatus{ObservedGeneration: -1}, want: []string{"x"}},
		"not there yet, nothing to lose ": {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := &appsv1.Deployment{Status: tc.status, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"apps.holdfast.dev/depends-on": tc.dependsOn, "apps.holdfast.dev/depended-on": tc.dependedOn}}}
			if got := former(tc.edges, live, oldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if got := former([]string{"a"}, nil, false); got != nil {
		t.Errorf("got %v", got)
	}
}

// A server is promised something whatever is said of it, and never more than it may use.
func TestServerIsPromisedSomething(t *testing.T) {
	for said, want := range map[string]string{
		`{}`:                       `{requests: {cpu: 100m, memory: 256Mi}}`,
		`{limits: {memory: 64Mi}}`: `{limits: {memory: 64Mi}, requests: {cpu: 100m}}`,
		`{requests: {cpu: 2}, limits: {memory: 1Gi}}`: `{requests: {cpu: 2}, limits: {memory: 1Gi}}`,
		`{requests: {memory: 1Gi}}`:                   `{requests: {cpu: 100m, memory: 1Gi}}`,
	} {
		var db appsapi.DatabaseComponent
		var wanted corev1.ResourceRequirements
		if err := errors.Join(yaml.UnmarshalStrict([]byte(said), &db.Resources), yaml.UnmarshalStrict([]byte(want), &wanted)); err != nil {
			t.Fatal(err)
		}
		before := db.DeepCopy()
		got := WithServers([]appsapi.Component{{Name: "db", Database: &db}})[0].Stateful.Resources
		if !equality.Semantic.DeepEqual(got, wanted) {
			t.Errorf("of %s comes %v, want %s", said, got, want)
		}
		if !equality.Semantic.DeepEqual(before, &db) {
			t.Errorf("%s was changed", said)
		}
	}
}
