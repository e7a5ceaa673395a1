package appstack_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// edge is how long a component waited after the last one it needs was ready.
type edge struct {
	turn
	last scene // of the dependency
	cost time.Duration
}

// judge goes through every turn of a film: each dependency must have been ready at what the
// spec asked for at that moment. It returns the turns that came too soon, and the edges
// that were waited for.
func (f *film) judge() (wrong []string, edges []edge) {
	for _, t := range f.turns() {
		asked := f.askedAt(t.version)
		objections, last := f.objections(t, asked)
		wrong = append(wrong, objections...)
		if last.version > asked.version {
			edges = append(edges, edge{t, last, t.seen.Sub(last.seen)})
		}
	}
	return wrong, edges
}

// objections are why a spec does not allow a turn. last is when the last dependency became
// ready.
func (f *film) objections(t turn, asked *askedSpec) (wrong []string, last scene) {
	c := componentOf(&asked.AppStackSpec, t.component)
	switch {
	case c == nil:
		return []string{fmt.Sprintf("%s became %s and is not in the spec", t.component, t.scene)}, last
	case t.shape != shapeOf(c):
		wrong = append(wrong, fmt.Sprintf("%s became %s, and the spec says %s", t.component, t.scene, shapeOf(c)))
	}
	for _, need := range needsOf(c) {
		dep := componentOf(&asked.AppStackSpec, need)
		since, ok := f.readyBefore(dep, t.version)
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s became %s before %s was ready as %s: %v", t.component, t.scene, need, shapeOf(dep), f.scenes[need]))
		}
		if since.version > last.version {
			last = since
		}
	}
	return wrong, last
}

// witness is the audit log by the resource version that a write led to.
type witness map[int64]*audit.Event

func newWitness(events audit.Events) witness {
	out := witness{}
	writes := events.Writes().Of("deployments.apps", "jobs.batch").Where((*audit.Event).Accepted)
	for i := range writes {
		var answer struct {
			Metadata struct{ ResourceVersion string }
		}
		if json.Unmarshal(writes[i].ResponseObject, &answer) != nil {
			continue
		}
		// The answer to a write that changed nothing has an old version: the first counts.
		version, err := strconv.ParseInt(answer.Metadata.ResourceVersion, 10, 64)
		if err == nil && out[version] == nil {
			out[version] = &writes[i]
		}
	}
	return out
}

// contradicts asks the API server itself: who made each turn, and whether that was asked for
// after the write that made the dependency ready. Versions alone would not tell a good
// decision from a lucky one.
func (w witness) contradicts(f *film, edges []edge) []string {
	var wrong []string
	for _, t := range f.turns() {
		if e := w[t.version]; e == nil || e.User.Username != operator.User {
			wrong = append(wrong, fmt.Sprintf("%s became %s by %+v, not by the operator", t.component, t.scene, e))
		}
	}
	for _, e := range edges {
		ready, write := w[e.last.version], w[e.version]
		switch {
		case ready == nil || write == nil:
			wrong = append(wrong, fmt.Sprintf("%s waited until %d: not in the audit log", e.component, e.last.version))
		case !write.Received.After(ready.Received):
			wrong = append(wrong, fmt.Sprintf("%s was asked for at %s, and its dependency was made ready at %s",
				e.component, write.Received, ready.Received))
		}
	}
	return wrong
}

// spread says how long things took.
func spread(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing to measure"
	}
	return fmt.Sprintf("median %s, p90 %s, max %s", quantile(all, 50), quantile(all, 90), quantile(all, 100))
}

func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)].Round(100 * time.Microsecond)
}
