package rehearsal

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

var shop = desired.Owner{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "us"}

// server accepts everything but what it is told to refuse.
type server struct {
	refuses map[string]error // by kind and name
	users   map[string]string
}

func (s server) Apply(id desired.ID, config *desired.Config, live rollout.Object, _ bool) (rollout.Object, error) {
	if err := s.refuses[id.Kind.Kind+" "+id.Name]; err != nil {
		return nil, err
	}
	if config.HoldsPods() {
		if err := config.CarryPods(live); err != nil {
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

func (s server) Resize(claim *corev1.PersistentVolumeClaim, _ resource.Quantity) error {
	return s.refuses["PersistentVolumeClaim "+claim.Name]
}
func (s server) Claim(string) (*corev1.PersistentVolumeClaim, error) { return nil, nil }
func (s server) HasSecret(name string) (bool, error)                 { return name != "missing", nil }
func (s server) User(k desired.Kept) (string, error)                 { return s.users[k.Name], nil }

func components(t *testing.T, text string) []appsapi.Component {
	t.Helper()
	var out []appsapi.Component
	if err := yaml.UnmarshalStrict([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// inputOf is an application whose cluster is as the rehearsal of another spec left it.
func inputOf(t *testing.T, before, after string) Input {
	t.Helper()
	in := Input{Owner: shop, Specs: components(t, before), Seen: rollout.Seen{}}
	if before != "" {
		r := play(t, withSpec(t, in, before), server{})
		for id, o := range r.Outcomes {
			switch obj := o.Now.(type) {
			case nil:
			case *corev1.PersistentVolumeClaim:
				in.Kept = append(in.Kept, desired.Kept{ID: id, Object: obj, Claim: obj})
			default:
				if id.Kind == desired.KindSecret {
					in.Kept = append(in.Kept, desired.Kept{ID: id, Object: obj})
				} else if id.Kind != desired.KindRevision {
					in.Seen[id] = obj
				}
			}
		}
		in.Kept = desired.InOrder(in.Kept)
	}
	in.Specs = components(t, after)
	return withSpec(t, in, after)
}

func withSpec(t *testing.T, in Input, text string) Input {
	t.Helper()
	spec, err := history.Of(text)
	if err != nil {
		t.Fatal(err)
	}
	in.Spec = &spec
	return in
}

func play(t *testing.T, in Input, s Server) *Result {
	t.Helper()
	r, err := Play(in, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told is what becomes of everything that does not stay as it is, in order.
func told(r *Result) []string {
	var out []string
	for id, o := range r.Outcomes {
		what := ""
		switch {
		case o.Refused != nil:
			what = "refused: " + o.Refused.Error()
		case o.Before == nil:
			what = "created"
		case o.Now == nil:
			what = "deleted"
		case o.Anew:
			what = "made anew"
		case !same(o.Before, o.Now):
			what = "changed"
		default:
			continue
		}
		if id.Kind == desired.KindRevision {
			continue
		}
		line := fmt.Sprintf("%d %s %s %s", o.Pass, what, id.Kind.Kind, id.Name)
		if len(o.WaitsFor) > 0 {
			line += " after " + and(o.WaitsFor)
		}
		out = append(out, line)
	}
	for component, why := range r.Trouble {
		out = append(out, "trouble "+component+": "+why)
	}
	slices.Sort(out)
	return out
}

const (
	db     = "{name: db, stateful: {image: 'db:1', replicas: 1, storage: [{name: data, mountPath: /data, size: 1Gi}]}}"
	dbMore = "{name: db, stateful: {image: 'db:1', replicas: 1, storage: [{name: data, mountPath: /data, size: 2Gi}]}}"
	api    = "{name: api, dependsOn: [db], service: {image: 'api:1'}}"
	api2   = "{name: api, dependsOn: [db], service: {image: 'api:2'}}"
	web    = "{name: web, dependsOn: [api], service: {image: 'web:1', ports: [{port: 80}]}}"
	web2   = "{name: web, dependsOn: [api], service: {image: 'web:2', ports: [{port: 80}]}}"
	free   = "{name: web, service: {image: 'web:1', ports: [{port: 80}]}}"
)

func TestPlay(t *testing.T) {
	no := errors.New("no")
	list := func(parts ...string) string { return "[" + strings.Join(parts, ", ") + "]" }
	cases := map[string]struct {
		before, after string
		server        server
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
		"what is removed goes after who needs it": {before: list(db, api, web), after: list(free), want: []string{
			"3 changed Deployment shop-web", // twice: what its old pods may need is written on it until they are gone
			"4 deleted Deployment shop-api", "5 deleted StatefulSet shop-db", "6 changed PersistentVolumeClaim data-shop-db-0", "6 deleted Service shop-db-headless",
		}},
		"data that goes": {before: list(db), after: list(free), change: func(in *Input) { in.DeleteData = true }, want: []string{
			"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db",
			"2 deleted PersistentVolumeClaim data-shop-db-0", "2 deleted Service shop-db-headless",
		}},
		"data that somebody uses": {before: list(db), after: list(free), change: func(in *Input) { in.DeleteData = true },
			server: server{users: map[string]string{"data-shop-db-0": "Pod theirs"}}, want: []string{
				"1 created Deployment shop-web", "1 created Service shop-web", "1 deleted StatefulSet shop-db", "2 deleted Service shop-db-headless",
				"trouble db: PersistentVolumeClaim data-shop-db-0 stays for as long as Pod theirs uses it",
			}},
		"storage grows around its pods": {before: list(db), after: list(dbMore), want: []string{
			"1 changed PersistentVolumeClaim data-shop-db-0", "3 made anew StatefulSet shop-db",
		}},
		"storage that cannot grow": {before: list(db), after: list(dbMore), server: server{refuses: map[string]error{"PersistentVolumeClaim data-shop-db-0": no}}, want: []string{
			"0 refused: no PersistentVolumeClaim data-shop-db-0",
		}},
		"one that is refused holds back who needs it, and what would go": {
			before: list(db, free), after: list(db, api), server: server{refuses: map[string]error{"Deployment shop-api": no}}, want: []string{
				"0 refused: no Deployment shop-api",
			}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := inputOf(t, tc.before, tc.after)
			if tc.change != nil {
				tc.change(&in)
			}
			if diff := cmp.Diff(tc.want, told(play(t, in, tc.server))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The cluster that is given is still the same afterwards.
func TestNothingIsChanged(t *testing.T) {
	in := inputOf(t, "["+db+", "+api+", "+web+"]", "["+dbMore+", "+api2+"]")
	before := rollout.Seen{}
	for id, obj := range in.Seen {
		before[id] = obj.DeepCopyObject().(rollout.Object)
	}
	claim := in.Kept[0].Claim.DeepCopy()
	play(t, in, server{})
	if diff := cmp.Diff(before, in.Seen); diff != "" {
		t.Errorf("children (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(claim, in.Kept[0].Claim); diff != "" {
		t.Errorf("claim (-before +after):\n%s", diff)
	}
}

func TestInvalidAndSuspended(t *testing.T) {
	circle := play(t, inputOf(t, "", "[{name: a, dependsOn: [b], service: {image: x}}, {name: b, dependsOn: [a], service: {image: x}}]"), server{})
	var invalid *rollout.Invalid
	if !errors.As(circle.Invalid, &invalid) || len(told(circle)) > 0 {
		t.Errorf("a circle: %v %v", circle.Invalid, told(circle))
	}
	off := play(t, inputOf(t, "["+db+", "+api+"]", "[{name: api, suspend: true, service: {image: 'api:2'}}]"), server{})
	if !off.HandsOff || !off.Held || len(told(off)) > 0 {
		t.Errorf("hands off %t, held %t, %v", off.HandsOff, off.Held, told(off))
	}
}

// An error that says nothing about an object ends everything.
func TestUnreachable(t *testing.T) {
	away := errors.New("away")
	_, err := Play(inputOf(t, "", "["+api+", "+db+"]"), server{refuses: map[string]error{"StatefulSet shop-db": Unreachable(away)}})
	if !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
}
