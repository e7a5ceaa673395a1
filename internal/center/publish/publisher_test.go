package publish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/sse"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/inspect"
)

// kindScopes uses kinds as scopes.
type kindScopes struct{}

func (kindScopes) ObjectScope(o explain.ObjectRef) sse.Scope {
	return sse.Scope{Resource: o.Kind, Namespace: o.Namespace}
}

func (kindScopes) ApplicationScopes(r *model.Record) []sse.Scope {
	return []sse.Scope{{Resource: r.Ref.Kind, Namespace: r.Ref.Namespace}}
}

// recordMap implements Records.
type recordMap map[model.Ref]*model.Record

func (s recordMap) Get(r model.Ref) *model.Record { return s[r] }
func (s recordMap) All() []*model.Record          { return slices.Collect(maps.Values(s)) }

var shop = model.Ref{Kind: "AppStack", Namespace: "demo", Name: "shop"}

func randomRecord(rng *rand.Rand) *model.Record {
	r := &model.Record{Ref: shop, View: inspect.View{Kind: shop.Kind, Namespace: shop.Namespace, Name: shop.Name, Health: health.Healthy}}
	for i := range rng.IntN(4) {
		c := inspect.Component{Name: fmt.Sprint("c", i), Ready: int32(rng.IntN(3)), Message: "the operator says"}
		for p := range rng.IntN(4) {
			o := explain.ObjectRef{Kind: "Pod", Namespace: "demo", Name: fmt.Sprint(c.Name, "-", p)}
			c.Tree = append(c.Tree, inspect.Node{Object: explain.ObjectRef{Kind: "Deployment", Name: fmt.Sprint("d", p)}, Children: []inspect.Node{{Object: o, Message: fmt.Sprint(rng.IntN(2))}}})
			if rng.IntN(3) == 0 {
				x := explain.Cause{Code: explain.CrashLoop, Object: o, Message: "it crashes"}
				c.Causes, r.Causes = append(c.Causes, x), append(r.Causes, x)
			}
		}
		r.Components = append(r.Components, c)
	}
	return r
}

// TestDiffsAddUpToSnapshot changes an application at random. In both topics, the sum of the published changes must
// equal a new snapshot.
func TestDiffsAddUpToSnapshot(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // reproducible
	records := recordMap{}
	f := New(records, kindScopes{})
	accumulated := map[string]string{}
	var before *model.Record
	for range 2000 {
		after := randomRecord(rng)
		if rng.IntN(5) == 0 {
			after = nil
		}
		for _, c := range append(diffEntries(f.summary(before), f.summary(after)), diffEntries(f.details(before), f.details(after))...) {
			if c.Body == nil {
				delete(accumulated, c.Topic+" "+c.Key)
				continue
			}
			accumulated[c.Topic+" "+c.Key] = encode(c)
		}
		delete(records, shop)
		if after != nil {
			records[shop] = after
		}
		want := map[string]string{}
		for _, topic := range []string{TopicAll, TopicFor(shop)} {
			all, err := f.Open(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if _, duplicate := want[c.Topic+" "+c.Key]; duplicate {
					t.Fatalf("%s exists twice", c.Key)
				}
				want[c.Topic+" "+c.Key] = encode(c)
			}
		}
		if diff := cmp.Diff(want, accumulated); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		before = after
	}
}

func encode(c sse.Change) string {
	out, err := json.Marshal(c.Body)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(c.Event, c.Scopes, string(out))
}

// Users who see an application but not its pods receive no data about the pods.
func TestEntriesCarryTheScopeOfTheirObject(t *testing.T) {
	pod := explain.ObjectRef{Kind: "Pod", Namespace: "demo", Name: "web-1"}
	cause := explain.Cause{Code: explain.CrashLoop, Object: pod, Message: "secret words"}
	for _, ref := range []model.Ref{{Kind: inspect.KindHelmRelease, Namespace: "demo", Name: "r"}, {Kind: inspect.KindGroup, Namespace: "demo", Name: "g"}} {
		r := &model.Record{Ref: ref, View: inspect.View{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, Message: "secret words", Reason: "secret words",
			Causes: []explain.Cause{cause}, Components: []inspect.Component{{Name: "web", Message: "secret words", Causes: []explain.Cause{cause}, Tree: []inspect.Node{{Object: pod, Message: "secret words"}}}}}}
		f := New(recordMap{ref: r}, kindScopes{})
		found := 0
		for _, topic := range []string{TopicAll, TopicFor(ref)} {
			all, err := f.Open(topic)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range all {
				if body, _ := json.Marshal(c.Body); !slices.Contains(c.Scopes, sse.Scope{Resource: "Pod", Namespace: "demo"}) && containsSecret(body) {
					t.Errorf("%s requires %v and contains %s", c.Key, c.Scopes, body)
				} else if containsSecret(body) {
					found++
				}
			}
		}
		if found != 3 {
			t.Errorf("it is published %d times with the required scope", found)
		}
	}
}

func containsSecret(body []byte) bool { return bytes.Contains(body, []byte("secret words")) }

func TestTopicNames(t *testing.T) {
	f := New(recordMap{}, kindScopes{})
	for _, topic := range []string{"nonsense", "application/AppStack/demo", "application/a/b/c/d"} {
		if _, err := f.Open(topic); err == nil {
			t.Errorf("%s was parsed as a topic", topic)
		}
	}
	if ref, ok := ParseTopic(TopicFor(shop)); !ok || ref != shop {
		t.Errorf("%v, %t", ref, ok)
	}
	f.PublishChange(nil, randomRecord(rand.New(rand.NewPCG(1, 2)))) //nolint:gosec // must not use the hub without open topics
}
