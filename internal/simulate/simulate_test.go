package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/history"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

var testOwner = desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "us"}

// fakeServer accepts everything but what it is told to refuse.
type fakeServer struct {
	rejects   map[string]error // by kind and name
	usingPods map[string]string
}

func (s fakeServer) Apply(id desired.ID, config *desired.Config, live rollout.Object, _ bool) (rollout.Object, error) {
	if err := s.rejects[id.Kind.Kind+" "+id.Name]; err != nil {
		return nil, err
	}
	if config.HoldsPodTemplate() {
		if err := config.KeepPodTemplate(live); err != nil {
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
func (s fakeServer) GetClaim(string) (*corev1.PersistentVolumeClaim, error) { return nil, nil }
func (s fakeServer) HasSecret(name string) (bool, error)                    { return name != "missing", nil }
func (s fakeServer) PodUsing(k desired.RetainedObject) (string, error) {
	return s.usingPods[k.Name], nil
}

func parseComponents(t *testing.T, text string) []appsapi.Component {
	t.Helper()
	var out []appsapi.Component
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// inputAfter is an application whose cluster is as the rehearsal of another spec left it.
func inputAfter(t *testing.T, before, after string) Input {
	t.Helper()
	in := Input{Owner: testOwner, ComponentSpecs: parseComponents(t, before), Observed: rollout.Observed{}}
	if before != "" {
		r := mustRun(t, withSpec(t, in, before), fakeServer{})
		for id, o := range r.Objects {
			switch obj := o.After.(type) {
			case nil:
			case *corev1.PersistentVolumeClaim:
				in.Retained = append(in.Retained, desired.RetainedObject{ID: id, Object: obj, Claim: obj})
			default:
				if id.Kind == desired.KindSecret {
					in.Retained = append(in.Retained, desired.RetainedObject{ID: id, Object: obj})
				} else if id.Kind != desired.KindRevision {
					in.Observed[id] = obj
				}
			}
		}
		in.Retained = desired.SortRetained(in.Retained)
	}
	in.ComponentSpecs = parseComponents(t, after)
	return withSpec(t, in, after)
}

func withSpec(t *testing.T, in Input, text string) Input {
	t.Helper()
	spec, err := history.Encode(text)
	if err != nil {
		t.Fatal(err)
	}
	in.Spec = &spec
	return in
}

func mustRun(t *testing.T, in Input, s APIServer) *Result {
	t.Helper()
	r, err := Run(in, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// formatResult is what becomes of everything that does not stay as it is, in order.
func formatResult(r *Result) []string {
	var out []string
	for id, o := range r.Objects {
		what := ""
		switch {
		case o.Rejected != nil:
			what = "refused: " + o.Rejected.Error()
		case o.Before == nil:
			what = "created"
		case o.After == nil:
			what = "deleted"
		case o.Recreated:
			what = "made anew"
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
		out = append(out, "trouble "+component+": "+reason)
	}
	slices.Sort(out)
	return out
}

const (
	db        = "{name: db, stateful: {image: 'db:1', replicas: 1, storage: [{name: data, mountPath: /data, size: 1Gi}]}}"
	dbLarger  = "{name: db, stateful: {image: 'db:1', replicas: 1, storage: [{name: data, mountPath: /data, size: 2Gi}]}}"
	api       = "{name: api, dependsOn: [db], service: {image: 'api:1'}}"
	api2      = "{name: api, dependsOn: [db], service: {image: 'api:2'}}"
	web       = "{name: web, dependsOn: [api], service: {image: 'web:1', ports: [{port: 80}]}}"
	web2      = "{name: web, dependsOn: [api], service: {image: 'web:2', ports: [{port: 80}]}}"
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
		"from nothing": {after: list(db, api, web), want: []string{
			"1 created Service shop-db-headless", "1 created StatefulSet shop-db",
			"3 created Deployment shop-api after db", "3 created PersistentVolumeClaim data-shop-db-0",
			"5 created Deployment shop-web after api", "5 created Service shop-web after api",
		}},
		"nothing to do": {before: list(db, api, web), after: list(db, api, web)},
		"images in order": {before: list(db, api, web), after: list(db, api2, web2), want: []string{
			"1 changed Deployment shop-api", "3 changed Deployment shop-web after api",
		}},
		"what is removed goes after who needs it": {before: list(db, api, web), after: list(webNoDeps), want: []string{
			"3 changed Deployment shop-web", // twice: what its old pods may need is written on it until they are gone
			"4 deleted Deployment shop-api", "5 deleted StatefulSet shop-db", "6 changed PersistentVolumeClaim data-shop-db-0", "6 deleted Service shop-db-headless",
		}},
		"data that goes": {before: list(db), after: list(webNoDeps), change: func(in *Input) { in.DeleteData = true }, want: []string{
			"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db",
			"2 deleted PersistentVolumeClaim data-shop-db-0", "2 deleted Service shop-db-headless",
		}},
		"data that somebody uses": {before: list(db), after: list(webNoDeps), change: func(in *Input) { in.DeleteData = true },
			server: fakeServer{usingPods: map[string]string{"data-shop-db-0": "Pod theirs"}}, want: []string{
				"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db", "2 deleted Service shop-db-headless",
				"trouble db: PersistentVolumeClaim data-shop-db-0 stays for as long as Pod theirs uses it",
			}},
		"storage grows around its pods": {before: list(db), after: list(dbLarger), want: []string{
			"1 changed PersistentVolumeClaim data-shop-db-0", "3 made anew StatefulSet shop-db",
		}},
		"storage that cannot grow": {before: list(db), after: list(dbLarger), server: fakeServer{rejects: map[string]error{"PersistentVolumeClaim data-shop-db-0": no}}, want: []string{
			"0 refused: no PersistentVolumeClaim data-shop-db-0",
		}},
		"one that is refused holds back who needs it, and what would go": {
			before: list(db, webNoDeps), after: list(db, api), server: fakeServer{rejects: map[string]error{"Deployment shop-api": no}}, want: []string{
				"0 refused: no Deployment shop-api",
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

// The cluster that is given is still the same afterwards.
func TestRunDoesNotMutateInput(t *testing.T) {
	in := inputAfter(t, "["+db+", "+api+", "+web+"]", "["+dbLarger+", "+api2+"]")
	before := rollout.Observed{}
	for id, obj := range in.Observed {
		before[id] = obj.DeepCopyObject().(rollout.Object)
	}
	claim := in.Retained[0].Claim.DeepCopy()
	mustRun(t, in, fakeServer{})
	if diff := cmp.Diff(before, in.Observed); diff != "" {
		t.Errorf("children (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(claim, in.Retained[0].Claim); diff != "" {
		t.Errorf("claim (-before +after):\n%s", diff)
	}
}

func TestInvalidAndSuspended(t *testing.T) {
	cycle := mustRun(t, inputAfter(t, "", "[{name: a, dependsOn: [b], service: {image: x}}, {name: b, dependsOn: [a], service: {image: x}}]"), fakeServer{})
	var invalid *rollout.InvalidSpec
	if !errors.As(cycle.SpecErr, &invalid) || len(formatResult(cycle)) > 0 {
		t.Errorf("a circle: %v %v", cycle.SpecErr, formatResult(cycle))
	}
	suspended := mustRun(t, inputAfter(t, "["+db+", "+api+"]", "[{name: api, suspend: true, service: {image: 'api:2'}}]"), fakeServer{})
	if !suspended.AllSuspended || !suspended.HeldBySuspend || len(formatResult(suspended)) > 0 {
		t.Errorf("hands off %t, held %t, %v", suspended.AllSuspended, suspended.HeldBySuspend, formatResult(suspended))
	}
}

// An error that says nothing about an object ends everything.
func TestUnreachableServerStopsRun(t *testing.T) {
	errUnreachable := errors.New("away")
	_, err := Run(inputAfter(t, "", "["+api+", "+db+"]"), fakeServer{rejects: map[string]error{"StatefulSet shop-db": Unreachable(errUnreachable)}})
	if !errors.Is(err, errUnreachable) {
		t.Errorf("got %v", err)
	}
}
