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

var stack = Owner{Keys: appsapi.DefaultKeys, APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "11111111-2222-3333-4444-555555555555"}

// stackSpec is also used by the contract test of package apply.
var stackSpec = func() string {
	spec, err := os.ReadFile("testdata/specs/stack.yaml")
	must(err)
	return string(spec)
}()

func refState(hash string) RefState {
	return RefState{UID: "uid", ResourceVersion: "7", Hash: hash}
}

var knownRefs = RefStates{
	{Kind: "ConfigMap", Name: "all"}:                            refState("h1"),
	{Kind: "ConfigMap", Name: "settings", Keys: "mode"}:         refState("h2"),
	{Kind: "Secret", Name: "web", Keys: "more,token"}:           refState("h3"),
	{Kind: "Secret", Name: "unrelated", Keys: "not requested "}: refState("h4"),
}

func components(t *testing.T, spec string) []ExpandedComponent {
	t.Helper()
	var out []appsapi.Component
	if err := yaml.UnmarshalStrict([]byte(spec), &out); err != nil {
		t.Fatal(err)
	}
	return ExpandComponents(out)
}

func TestGoldenStacks(t *testing.T) {
	for _, name := range []string{"stack.yaml", "data.yaml"} {
		t.Run(name, func(t *testing.T) {
			spec, err := os.ReadFile("testdata/specs/" + name)
			must(err)
			var got bytes.Buffer
			for _, c := range Build(stack, components(t, string(spec)), ClusterState{RefStates: knownRefs}) {
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
				t.Errorf("a difference in a pod template restarts the pods of all users (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildStack(t *testing.T) {
	all := Build(stack, components(t, stackSpec), ClusterState{RefStates: knownRefs})
	web, migrate, nightly := all[0], all[3], all[4]
	if diff := cmp.Diff([]string{"auth", "migrate", "the-api"}, web.DependsOn); diff != "" {
		t.Error(diff)
	}
	if web.Type != "Service" || migrate.Type != "Job" || migrate.NonBlocking || !nightly.NonBlocking || nightly.JobSpecHash != "" {
		t.Errorf("got %+v", all)
	}
	if want := "shop-migrate-" + migrate.JobSpecHash; migrate.Workload.Name != want || len(migrate.JobSpecHash) != 10 {
		t.Errorf("the name of the Job is %q, want %q", migrate.Workload.Name, want)
	}
	if nightly.ProgressDeadlineSeconds != 60 || nightly.Workload.Name != "shop-nightly" || nightly.Workload.Kind.Kind != "CronJob" {
		t.Errorf("got %+v", nightly)
	}
}

func TestDefaultReadinessProbe(t *testing.T) {
	for spec, want := range map[string]bool{
		`[{name: web, service: {image: a, ports: [{port: 80}]}}]`:                                                       true,
		`[{name: web, service: {image: a, ports: [{port: 80, protocol: UDP}]}}]`:                                        false,
		`[{name: web, service: {image: a, ports: [{port: 80}], probes: {readiness: {tcpSocket: {port: 80}}}}}]`:         false,
		`[{name: db, stateful: {image: a, ports: [{port: 80}], storage: [{name: data, mountPath: /data, size: 1Gi}]}}]`: true,
		`[{name: db, database: {version: "11.8", storage: {size: 1Gi}}}]`:                                               false,
		`[{name: job, job: {image: a}}]`:                                                                                false,
	} {
		if got := Build(stack, components(t, spec), ClusterState{})[0].DefaultReadinessProbe; got != want {
			t.Errorf("%s: default probe %v, want %v", spec, got, want)
		}
	}
}

func TestComponentHasOneType(t *testing.T) {
	service := &appsapi.ServiceComponent{}
	got := ExpandComponents([]appsapi.Component{{Name: "a", Service: service}, {Name: "b"}, {Name: "c", Service: service, Job: &appsapi.JobComponent{}}})
	const rule = "; set exactly one of service, stateful, job and database"
	if got[0].InvalidType != "" || got[1].InvalidType != `Component "b" has 0 types`+rule || got[2].InvalidType != `Component "c" has 2 types`+rule {
		t.Errorf("got %q, %q, %q", got[0].InvalidType, got[1].InvalidType, got[2].InvalidType)
	}
}

// TestMinReadySeconds: pods without a probe are ready even if their program crashes at once.
func TestMinReadySeconds(t *testing.T) {
	const dependent = `, {name: web, dependsOn: [a], service: {image: a}}]`
	for spec, want := range map[string]int32{
		`[{name: a, service: {image: a}}]`:                                                                                                              0,
		`[{name: a, service: {image: a}}` + dependent:                                                                                                   5,
		`[{name: a, service: {image: a, ports: [{port: 80}]}}` + dependent:                                                                              0,
		`[{name: a, service: {image: a, probes: {startup: {exec: {command: [ok]}}}}}` + dependent:                                                       0,
		`[{name: a, service: {image: a, update: {minReadySeconds: 1}}}` + dependent:                                                                     1,
		`[{name: a, service: {image: a, update: {progressDeadlineSeconds: 3}}}` + dependent:                                                             2,
		`[{name: a, stateful: {image: a, storage: [{name: data, mountPath: /data, size: 1Gi}]}}` + dependent:                                            5,
		`[{name: a, service: {image: a, podTemplateOverlay: {spec: {containers: [{name: app, readinessProbe: {exec: {command: [ok]}}}]}}}}` + dependent: 0,
	} {
		c := Build(stack, components(t, spec), ClusterState{})[0]
		var got struct {
			Spec struct {
				MinReadySeconds int32 `json:"minReadySeconds"`
			} `json:"spec"`
		}
		must(yaml.Unmarshal(render(t, c.Children[0], nil), &got))
		if got.Spec.MinReadySeconds != want {
			t.Errorf("%s: minReadySeconds %d, want %d", spec, got.Spec.MinReadySeconds, want)
		}
	}
}

// TestJobNames: shortened names keep the hash of the spec, and names of CronJobs leave room for the suffix that
// Kubernetes appends.
func TestJobNames(t *testing.T) {
	long := stack
	long.Name = strings.Repeat("n", 60)
	spec := components(t, `[{name: migrate, job: {image: a}}, {name: nightly, job: {image: a, schedule: "@daily"}}]`)
	all := Build(long, spec, ClusterState{})
	job, cronJob := all[0], all[1]
	if name := job.Workload.Name; len(name) > 63 || !strings.HasSuffix(name, "-"+job.JobSpecHash) {
		t.Errorf("the name of the Job is %q", name)
	}
	if name := cronJob.Workload.Name; len(name) > 52 {
		t.Errorf("the name of the CronJob is %q", name)
	}
}

// TestJobSpecHash: the hash depends on the job, but not on its bindings and dependencies.
func TestJobSpecHash(t *testing.T) {
	of := func(spec string) string { return Build(stack, components(t, spec), ClusterState{})[0].JobSpecHash }
	base := of(`[{name: m, job: {image: a}}]`)
	for spec, same := range map[string]bool{
		`[{name: m, dependsOn: [b], job: {image: a}}, {name: b, service: {image: b}}]`:                                 true,
		`[{name: m, bindings: [{component: b}], job: {image: a}}, {name: b, service: {image: b, ports: [{port: 1}]}}]`: true,
		`[{name: m, job: {image: b}}]`:                  false,
		`[{name: m, job: {image: a, backoffLimit: 0}}]`: false,
		`[{name: m, job: {image: a, args: [x]}}]`:       false,
	} {
		if (of(spec) == base) != same {
			t.Errorf("%s: equal hashes: %t", spec, !same)
		}
	}
}

// TestExistingJobTemplateIsUnchanged renders an existing Job with other bindings, as another version of Holdfast would:
// the pod template is sent unchanged and is not owned.
func TestExistingJobTemplateIsUnchanged(t *testing.T) {
	child := Build(stack, components(t, stackSpec), ClusterState{RefStates: knownRefs})[3].Children[0]
	first, err := child.Render(nil)
	must(err)
	body, err := first.Patch("", "1")
	must(err)
	live := &batchv1.Job{}
	must(json.Unmarshal(body, live))
	live.Spec.Template.Spec.Containers[0].Env[0].Value = "elsewhere"
	live.Spec.Template.Labels["batch.kubernetes.io/job-name"] = live.Name

	moved := strings.ReplaceAll(strings.ReplaceAll(stackSpec, "backend", "other"), "dependsOn: [auth]", "dependsOn: [the-api]")
	again, err := Build(stack, components(t, moved), ClusterState{})[3].Children[0].Render(live)
	must(err)
	if again.Hash() != live.Annotations["apps.holdfast.dev/applied-hash"] {
		t.Error("another binding changes the hash")
	}
	if again.ReplacesPods(live) {
		t.Error("it would replace the pods of a job")
	}
	fields, err := again.Fields()
	must(err)
	if _, held := fields["spec"].(map[string]any)["template"]; held {
		t.Error("the configuration contains the pod template of an existing Job")
	}
	body, err = again.Patch(live.UID, "2")
	must(err)
	sent := &batchv1.Job{}
	must(json.Unmarshal(body, sent))
	if diff := cmp.Diff(live.Spec.Template, sent.Spec.Template); diff != "" {
		t.Errorf("the sent template differs from the live template, which the API server rejects (-want +got):\n%s", diff)
	}
}

// TestConsumedRefs checks which content pods are created with.
func TestConsumedRefs(t *testing.T) {
	ref := Ref{Kind: "Secret", Name: "web"}
	live := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		"apps.holdfast.dev/config-refs": `[{"kind":"Secret","name":"web","uid":"uid","resourceVersion":"3","hash":"old"}]`}}}
	cases := map[string]struct {
		known RefStates
		live  metav1.Object
		want  []refRecord
	}{
		"new":                       {RefStates{ref: refState("new")}, nil, []refRecord{{ref, refState("new")}}},
		"missing":                   {nil, nil, nil},
		"changed":                   {RefStates{ref: refState("new")}, live, []refRecord{{ref, refState("new")}}},
		"new version, same content": {RefStates{ref: refState("old")}, live, []refRecord{{ref, RefState{UID: "uid", ResourceVersion: "3", Hash: "old"}}}},
		"deleted":                   {nil, live, []refRecord{{ref, RefState{UID: "uid", ResourceVersion: "3", Hash: "old"}}}},
		"invalid annotation":        {nil, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"apps.holdfast.dev/config-refs": "{"}}}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, consumedRefs(appsapi.DefaultKeys, []Ref{ref}, tc.known, tc.live)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFormerDependencies: dependencies of terminating pods stay recorded.
func TestFormerDependencies(t *testing.T) {
	rolling := appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 1}
	cases := map[string]struct {
		dependsOn, dependedOn string
		status                appsv1.DeploymentStatus
		deps, want            []string
	}{
		"unchanged":                    {dependsOn: "a,b", deps: []string{"a", "b"}},
		"dependency removed":           {dependsOn: "a,x", deps: []string{"a"}, want: []string{"x"}},
		"removed, with old pods":       {dependsOn: "a", dependedOn: "x", status: rolling, deps: []string{"a"}, want: []string{"x"}},
		"removed, without old pods":    {dependsOn: "a", dependedOn: "x", deps: []string{"a"}},
		"second dependency removed":    {dependsOn: "y", dependedOn: "x", status: rolling, want: []string{"x", "y"}},
		"component still in the spec":  {dependsOn: "a,b", deps: []string{"a"}, want: []string{"b"}},
		"previous dependency restored": {dependsOn: "a", dependedOn: "b", status: rolling, deps: []string{"a"}, want: []string{"b"}},
		"the same dependency in both":  {dependsOn: "x", dependedOn: "x", status: rolling, want: []string{"x"}},
		"generation not observed":      {dependsOn: "", dependedOn: "x", status: appsv1.DeploymentStatus{ObservedGeneration: -1}, want: []string{"x"}},
		"no dependencies":              {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			live := &appsv1.Deployment{Status: tc.status, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
				"apps.holdfast.dev/depends-on": tc.dependsOn, "apps.holdfast.dev/previous-depends-on": tc.dependedOn}}}
			if got := formerDependencies(appsapi.DefaultKeys, tc.deps, live, hasOldPods(live.Generation, live.Status.ObservedGeneration, live.Status.Replicas, live.Status.UpdatedReplicas)); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if got := formerDependencies(appsapi.DefaultKeys, []string{"a"}, nil, false); got != nil {
		t.Errorf("got %v", got)
	}
}

// A server always has requests, which do not exceed its limits.
func TestServerHasDefaultRequests(t *testing.T) {
	for resources, want := range map[string]string{
		`{}`:                       `{requests: {cpu: 100m, memory: 256Mi}}`,
		`{limits: {memory: 64Mi}}`: `{limits: {memory: 64Mi}, requests: {cpu: 100m}}`,
		`{requests: {cpu: 2}, limits: {memory: 1Gi}}`: `{requests: {cpu: 2}, limits: {memory: 1Gi}}`,
		`{requests: {memory: 1Gi}}`:                   `{requests: {cpu: 100m, memory: 1Gi}}`,
	} {
		var db appsapi.DatabaseComponent
		var expected corev1.ResourceRequirements
		if err := errors.Join(yaml.UnmarshalStrict([]byte(resources), &db.Resources), yaml.UnmarshalStrict([]byte(want), &expected)); err != nil {
			t.Fatal(err)
		}
		before := db.DeepCopy()
		got := ExpandComponents([]appsapi.Component{{Name: "db", Database: &db}})[0].Stateful.Resources
		if !equality.Semantic.DeepEqual(got, expected) {
			t.Errorf("%s: got %v, want %s", resources, got, want)
		}
		if !equality.Semantic.DeepEqual(before, &db) {
			t.Errorf("%s was changed", resources)
		}
	}
}
