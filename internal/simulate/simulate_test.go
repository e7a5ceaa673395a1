package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// fakeServer accepts all objects except for those in rejects.
type fakeServer struct {
	rejects map[string]error // by kind and name
	pods    []corev1.Pod
}

func (s fakeServer) Apply(a Apply) (rollout.Object, error) {
	id, config, live := a.ID, a.Config, a.Current
	if err := s.rejects[id.Kind.Kind+" "+id.Name]; err != nil {
		return nil, err
	}
	if config.HoldsPodTemplate() {
		if err := config.SendLivePodTemplate(live); err != nil {
			return nil, err
		}
	}
	body, err := config.Patch("", "1")
	if err != nil {
		return nil, err
	}
	var all map[string]any
	if err := utiljson.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	generation := int64(1)
	if live != nil {
		before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return nil, err
		}
		all["status"], generation = before["status"], live.GetGeneration()+1
	}
	obj, err := clientgoscheme.Scheme.New(id.Kind)
	if err != nil {
		return nil, err
	}
	out := obj.(rollout.Object)
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(all, out)
	out.SetGeneration(generation)
	return out, err
}

func (s fakeServer) Resize(claim *corev1.PersistentVolumeClaim, _ resource.Quantity) error {
	return s.rejects["PersistentVolumeClaim "+claim.Name]
}

// Get returns NotFound: the copy has all objects of the cluster.
func (s fakeServer) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (s fakeServer) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.PodList).Items = s.pods
	return nil
}

// HashesFor returns a fixed hash for all referenced Secrets.
func (s fakeServer) HashesFor(_ context.Context, _ types.NamespacedName, components []desired.ExpandedComponent, _ rollout.Observed, _ []desired.Ref) (desired.RefStates, error) {
	states := desired.RefStates{}
	for _, c := range components {
		for _, ref := range desired.Refs(c) {
			states[ref] = desired.RefState{UID: "1", Hash: "known"}
		}
	}
	return states, nil
}

var stackKind = execute.Kind{
	GVK:  appsapi.GroupVersion.WithKind("AppStack"),
	Keys: appsapi.DefaultKeys,
	New:  func() execute.Application { return &appsapi.AppStack{} },
	Components: func(app execute.Application) []desired.ExpandedComponent {
		spec := app.(*appsapi.AppStack).DeepCopy().Spec
		return desired.SetOperations(desired.ExpandComponents(spec.Components), &spec.Operations)
	},
	DeletionPolicy: func(app execute.Application) appsapi.DeletionPolicy {
		return app.(*appsapi.AppStack).Spec.DeletionPolicy
	},
	History: func(app execute.Application) (any, int32) { return app.(*appsapi.AppStack).Spec, 0 },
}

func newStack(t *testing.T, components string) *appsapi.AppStack {
	t.Helper()
	stack := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop", UID: "us"}}
	if err := yaml.UnmarshalStrict([]byte(components), &stack.Spec.Components); err != nil {
		t.Fatal(err)
	}
	return stack
}

// inputAfter returns the input of a spec in the cluster state after the simulation of another spec.
func inputAfter(t *testing.T, before, after string) Input {
	t.Helper()
	in := Input{Kind: stackKind, App: newStack(t, after), ConfigRefs: fakeServer{}, Reader: fakeServer{}}
	if before != "" {
		live := newStack(t, before)
		for id, o := range mustRun(t, Input{Kind: stackKind, App: live, ConfigRefs: fakeServer{}}, fakeServer{}).Objects {
			if o.After != nil {
				obj := o.After.(client.Object)
				obj.GetObjectKind().SetGroupVersionKind(id.Kind)
				in.Objects = append(in.Objects, obj)
			}
		}
		in.Live = live
	}
	return in
}

func mustRun(t *testing.T, in Input, s fakeServer) *Result {
	t.Helper()
	in.Reader = s
	r, err := Run(t.Context(), in, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// formatResult formats all changes in order.
func formatResult(r *Result) []string {
	var out []string
	for id, o := range r.Objects {
		what := ""
		switch {
		case o.Rejected != nil:
			what = "rejected: " + o.Rejected.Error()
		case o.Before == nil:
			what = "created"
		case o.After == nil:
			what = "deleted"
		case o.Recreated:
			what = "recreated"
		case !equalSpec(o.Before, o.After):
			what = "changed"
		default:
			continue
		}
		if id.Kind == desired.KindRevision {
			continue
		}
		line := fmt.Sprintf("%d %s %s %s", o.Pass, what, id.Kind.Kind, id.Name)
		if len(o.WaitsFor) > 0 {
			line += " after " + joinNames(o.WaitsFor)
		}
		out = append(out, line)
	}
	for component, reason := range r.Problems {
		out = append(out, "problem "+component+": "+reason)
	}
	slices.Sort(out)
	return out
}

const (
	db        = "{name: db, stateful: {image: 'db:1', replicas: 1, update: {minReadySeconds: 1}, storage: [{name: data, mountPath: /data, size: 1Gi}]}}"
	dbLarger  = "{name: db, stateful: {image: 'db:1', replicas: 1, update: {minReadySeconds: 1}, storage: [{name: data, mountPath: /data, size: 2Gi}]}}"
	api       = "{name: api, dependsOn: [db], service: {image: 'api:1'}}"
	api2      = "{name: api, dependsOn: [db], service: {image: 'api:2'}}"
	web       = "{name: web, dependsOn: [api], service: {image: 'web:1', ports: [{port: 80}]}}"
	web2      = "{name: web, dependsOn: [api], service: {image: 'web:2', ports: [{port: 80}]}}"
	mysqlDB   = "{name: db, database: {version: '11.8', storage: {size: 1Gi}}}"
	olderDB   = "{name: db, database: {version: '10.11', storage: {size: 1Gi}}}"
	renamedDB = "{name: db, resourceName: store, database: {version: '11.8', storage: {size: 1Gi}}}"
	client1   = "{name: api, service: {image: 'api:1'}, bindings: [{component: db, envPrefix: DB}]}"
	webNoDeps = "{name: web, service: {image: 'web:1', ports: [{port: 80}]}}"
)

func TestRun(t *testing.T) {
	no := errors.New("no")
	list := func(parts ...string) string { return "[" + strings.Join(parts, ", ") + "]" }
	cases := map[string]struct {
		before, after string
		server        fakeServer
		change        func(*Input)
		want          []string
	}{
		"new application": {after: list(db, api, web), want: []string{
			"1 created Service shop-db-headless", "1 created StatefulSet shop-db",
			"3 created Deployment shop-api after db", "3 created PersistentVolumeClaim data-shop-db-0",
			"5 created Deployment shop-web after api", "5 created Service shop-web after api",
		}},
		"clients of a renamed database restart": {before: list(mysqlDB, client1), after: list(renamedDB, client1), want: []string{
			"1 created Service store", "2 changed Deployment shop-api", "4 deleted Service shop-db",
		}},
		"the claim of an upgraded database records its version": {before: list(olderDB), after: list(mysqlDB), want: []string{
			"1 changed StatefulSet shop-db", "3 changed PersistentVolumeClaim data-shop-db-0",
		}},
		"unchanged database":    {before: list(mysqlDB, client1), after: list(mysqlDB, client1)},
		"unchanged application": {before: list(db, api, web), after: list(db, api, web)},
		"images follow the rollout order": {before: list(db, api, web), after: list(db, api2, web2), want: []string{
			"1 changed Deployment shop-api", "3 changed Deployment shop-web after api",
		}},
		"removed components are deleted after their dependents": {before: list(db, api, web), after: list(webNoDeps), want: []string{
			"3 changed Deployment shop-web", // twice: it records the dependencies of its old pods until they terminate
			"4 deleted Deployment shop-api", "5 deleted StatefulSet shop-db", "6 changed PersistentVolumeClaim data-shop-db-0", "6 deleted Service shop-db-headless",
		}},
		"data is deleted": {before: list(db), after: list(webNoDeps), change: deleteData, want: []string{
			"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db",
			"2 deleted PersistentVolumeClaim data-shop-db-0", "2 deleted Service shop-db-headless",
		}},
		"data in use is kept": {before: list(db), after: list(webNoDeps), change: deleteData,
			server: fakeServer{pods: []corev1.Pod{podWithClaim("theirs", "data-shop-db-0")}}, want: []string{
				"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db", "2 deleted Service shop-db-headless",
				"problem db: PersistentVolumeClaim data-shop-db-0 is kept while Pod theirs uses it",
			}},
		"storage grows without a restart of pods": {before: list(db), after: list(dbLarger), want: []string{
			"1 changed PersistentVolumeClaim data-shop-db-0", "3 recreated StatefulSet shop-db",
		}},
		"storage cannot grow": {before: list(db), after: list(dbLarger), server: fakeServer{rejects: map[string]error{"PersistentVolumeClaim data-shop-db-0": no}}, want: []string{
			"0 rejected: no PersistentVolumeClaim data-shop-db-0",
		}},
		"a rejected component blocks its dependents and deletions": {
			before: list(db, webNoDeps), after: list(db, api), server: fakeServer{rejects: map[string]error{"Deployment shop-api": no}}, want: []string{
				"0 rejected: no Deployment shop-api",
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputAfter(t, tc.before, tc.after)
			if tc.change != nil {
				tc.change(&in)
			}
			if diff := cmp.Diff(tc.want, formatResult(mustRun(t, in, tc.server))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func deleteData(in *Input) { in.App.(*appsapi.AppStack).Spec.DeletionPolicy = appsapi.DeletionDelete }

func podWithClaim(name, claim string) corev1.Pod {
	source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data", VolumeSource: source}}}}
}

// The simulation does not modify its input.
func TestRunDoesNotMutateInput(t *testing.T) {
	in := inputAfter(t, "["+db+", "+api+", "+web+"]", "["+dbLarger+", "+api2+"]")
	var before []client.Object
	for _, obj := range in.Objects {
		before = append(before, obj.DeepCopyObject().(client.Object))
	}
	mustRun(t, in, fakeServer{})
	if diff := cmp.Diff(before, in.Objects); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestInvalidAndSuspended(t *testing.T) {
	cycle := mustRun(t, inputAfter(t, "", "[{name: a, dependsOn: [b], service: {image: x}}, {name: b, dependsOn: [a], service: {image: x}}]"), fakeServer{})
	var invalid *rollout.InvalidSpec
	if !errors.As(cycle.SpecErr, &invalid) || len(formatResult(cycle)) > 0 {
		t.Errorf("dependency cycle: %v %v", cycle.SpecErr, formatResult(cycle))
	}
	in := inputAfter(t, "["+db+", "+api+"]", "[{name: api, service: {image: 'api:2'}}]")
	in.App.(*appsapi.AppStack).Spec.EditOperations("api", func(o *appsapi.ComponentOperations) { o.Suspend = true })
	suspended := mustRun(t, in, fakeServer{})
	if !suspended.AllSuspended || !suspended.HeldBySuspend || len(formatResult(suspended)) > 0 {
		t.Errorf("suspended %t, held %t, %v", suspended.AllSuspended, suspended.HeldBySuspend, formatResult(suspended))
	}
}

// An error that is unrelated to the object ends the simulation.
func TestUnreachableServerStopsRun(t *testing.T) {
	errUnreachable := errors.New("away")
	_, err := Run(t.Context(), inputAfter(t, "", "["+api+", "+db+"]"), fakeServer{rejects: map[string]error{"StatefulSet shop-db": Unreachable(errUnreachable)}})
	if !errors.Is(err, errUnreachable) {
		t.Errorf("got %v", err)
	}
}
