package calls

import (
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	rollingReplicas = 5
	// between two updates of one AppService, so that an event about the first is not
	// counted for the second.
	between = 300 * time.Millisecond
)

// maxStatus is what an update may be worth: begun, rolling out, done.
const maxStatus = 3

// update rolls out image after image.
func (s *stage) update() {
	var names []string
	for i := range *abreast {
		names = append(names, fmt.Sprintf("%s%d", rolling, i))
		s.newApp(names[i], rollingReplicas)
	}
	s.waitReady(names...)
	s.calmDown()
	all := s.requests(func() {
		var group sync.WaitGroup
		for i, name := range names {
			rounds := *updates / *abreast
			if i < *updates%*abreast {
				rounds++
			}
			group.Go(func() { s.roll(name, rounds) })
		}
		group.Wait()
	})
	var each []audit.Events
	for _, name := range names {
		each = append(each, perUpdate(all, name)...)
	}
	// A list is about no AppService, and so in none of the parts.
	s.table.add(updated(each, perApp(ours(all), names)[""]))
}

func (s *stage) roll(name string, rounds int) {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	for i := range rounds {
		image := fmt.Sprintf(`{"spec":{"image":"shop/web:%d"}}`, i+2)
		s.check(s.Patch(s.Context(), app, client.RawPatch(types.MergePatchType, []byte(image))))
		// Not before the watch has shown the edit: until then, the old generation is Ready.
		s.waitGeneration(name, app.Generation)
		s.waitReady(name)
		time.Sleep(between)
	}
}

func (s *stage) waitGeneration(name string, generation int64) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if obj := s.seen.State().Get(resourceOf(name), s.ns+"/"+name); obj != nil && obj.GetGeneration() >= generation {
			return
		}
	}
	s.Errorf("%s: generation %d was not seen", name, generation)
}

// perUpdate cuts the operator's requests about one AppService at each edit of it.
func perUpdate(all audit.Events, name string) []audit.Events {
	var parts []audit.Events
	for i := range all {
		e := &all[i]
		switch {
		case appOf(e) != name:
		case e.Verb == "patch" && e.Resource() == "appservices.apps.holdfast.dev":
			parts = append(parts, nil)
		case e.User.Username == operator.User && len(parts) > 0:
			parts[len(parts)-1] = append(parts[len(parts)-1], *e)
		}
	}
	return parts
}

func updated(each []audit.Events, stray tally) row {
	var childWrites, statusWrites, told []int
	all := stray
	var notes []string
	for _, part := range each {
		t := count(part)
		childWrites, statusWrites, told = append(childWrites, t[children]), append(statusWrites, t[status]), append(told, t[events])
		all = all.most(t)
		if len(notes) == 0 && (t[status] > maxStatus || t[children] != 1 || t[refused]+t[reads] > 0) {
			notes = sample(part)
		}
	}
	return row{
		Name:   fmt.Sprintf("%d rolling updates of %d replicas, each", len(each), rollingReplicas),
		Budget: fmt.Sprintf("1 child write, status at most %d, 0 refused, 0 reads", maxStatus),
		Measured: fmt.Sprintf("children %s, status %s, events %s, refused up to %d, reads up to %d",
			spread(childWrites), spread(statusWrites), spread(told), all[refused], all[reads]),
		OK: len(each) == *updates && slices.Min(childWrites) == 1 && slices.Max(childWrites) == 1 &&
			slices.Max(statusWrites) <= maxStatus && all[refused]+all[reads]+all[other] == 0,
		Notes: notes,
	}
}
