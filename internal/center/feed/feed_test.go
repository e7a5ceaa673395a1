package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/center/hub"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// plainRights are named after kinds.
type plainRights struct{}

func (plainRights) Object(o explain.Object) hub.Scope {
	return hub.Scope{Resource: o.Kind, Namespace: o.Namespace}
}

func (plainRights) Application(r *model.Record) []hub.Scope {
	return []hub.Scope{{Resource: r.Ref.Kind, Namespace: r.Ref.Namespace}}
}

// shelf has records.
type shelf map[model.Ref]*model.Record

func (s shelf) Get(r model.Ref) *model.Record { return s[r] }
func (s shelf) All() []*model.Record          { return slices.Collect(maps.Values(s)) }

var shop = model.Ref{Kind: "AppStack", Namespace: "demo", Name: "shop"}

func randomRecord(random *rand.Rand) *model.Record {
	r := &model.Record{Ref: shop, View: view.View{Kind: shop.Kind, Namespace: shop.Namespace, Name: shop.Name, Health: health.Healthy}}
	for i := range random.IntN(4) {
		c := view.Component{Name: fmt.Sprint("c", i), Ready: int32(random.IntN(3)), Message: "the operator says"}
		for p := range random.IntN(4) {
			o := explain.Object{Kind: "Pod", Namespace: "demo", Name: fmt.Sprint(c.Name, "-", p)}
			c.Tree = append(c.Tree, view.Node{Object: explain.Object{Kind: "Deployment", Name: fmt.Sprint("d", p)}, Children: []view.Node{{Object: o, Message: fmt.Sprint(random.IntN(2))}}})
			if random.IntN(3) == 0 {
				x := explain.Cause{Code: explain.CrashLoop, Object: o, Sentence: "it crashes"}
				c.Causes, r.Causes = append(c.Causes, x), append(r.Causes, x)
			}
		}
		r.Components = append(r.Components, c)
	}
	return r
}

// TestChangesAddUp plays random lives of an application: who adds up the differences ends with what
// one gets who comes then, in both topics.
func TestChangesAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same every time
	records := shelf{}
	f := New(records, plainRights{})
	have := map[string]string{}
	var before *model.Record
	for range 2000 {
		after := randomRecord(random)
		if random.IntN(5) == 0 {
			after = nil
		}
		for _, c := range append(difference(f.summary(before), f.summary(after)), difference(f.whole(before), f.whole(after))...) {
			if c.Body == nil {
				delete(have, c.Topic+" "+c.Key)
				continue
			}
			have[c.Topic+" "+c.Key] = text(c)
		}
		delete(records, shop)
		if after != nil {
			records[shop] = after
		}
		want := map[string]string{}
		for _, topic := range []string{All, Topic(shop)} {
			all, err := f.Open(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if _, twice := want[c.Topic+" "+c.Key]; twice {
					t.Fatalf("%s is there twice", c.Key)
				}
				want[c.Topic+" "+c.Key] = text(c)
			}
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		before = after
	}
}

func text(c hub.Change) string {
	out, err := json.Marshal(c.Body)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(c.Event, c.Scopes, string(out))
}

// Whoever may see an application without its pods is told nothing about them.
func TestWhoMaySeeWhat(t *testing.T) {
	pod := explain.Object{Kind: "Pod", Namespace: "demo", Name: "web-1"}
	cause := explain.Cause{Code: explain.CrashLoop, Object: pod, Sentence: "secret words"}
	for _, ref := range []model.Ref{{Kind: view.KindHelmRelease, Namespace: "demo", Name: "r"}, {Kind: view.KindGroup, Namespace: "demo", Name: "g"}} {
		r := &model.Record{Ref: ref, View: view.View{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Message: "secret words", Reason: "secret words",
			Causes: []explain.Cause{cause}, Components: []view.Component{{Name: "web", Message: "secret words", Causes: []explain.Cause{cause}, Tree: []view.Node{{Object: pod, Message: "secret words"}}}}}}
		f := New(shelf{ref: r}, plainRights{})
		said := 0
		for _, topic := range []string{All, Topic(ref)} {
			all, err := f.Open(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if body, _ := json.Marshal(c.Body); !slices.Contains(c.Scopes, hub.Scope{Resource: "Pod", Namespace: "demo"}) && containsSecret(body) {
					t.Errorf("%s is for %v and says %s", c.Key, c.Scopes, body)
				} else if containsSecret(body) {
					said++
				}
			}
		}
		if said != 3 {
			t.Errorf("it is said %d times to those who may hear it", said)
		}
	}
}

func containsSecret(body []byte) bool { return bytes.Contains(body, []byte("secret words")) }

func TestTopics(t *testing.T) {
	f := New(shelf{}, plainRights{})
	for _, topic := range []string{"nonsense", "application/AppStack/demo", "application/a/b/c/d"} {
		if _, err := f.Open(topic); err == nil {
			t.Errorf("%s is a topic", topic)
		}
	}
	if ref, ok := Ref(Topic(shop)); !ok || ref != shop {
		t.Errorf("%v, %t", ref, ok)
	}
	f.Published(nil, randomRecord(rand.New(rand.NewPCG(1, 2)))) //nolint:gosec // nobody follows it, and there is no hub
}
