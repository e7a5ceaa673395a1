package apibudget

import (
	"context"
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
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

const (
	rollingReplicas = 5
	// updatePause separates two updates of one AppService, so that events of the first are not counted for the
	// second.
	updatePause = 300 * time.Millisecond
)

// maxStatusWrites is the maximum number of status updates per update: started, in progress, complete.
const maxStatusWrites = 3

// measureUpdates rolls out several images in sequence.
func (s *harness) measureUpdates() {
	var names []string
	for i := range *parallelism {
		names = append(names, fmt.Sprintf("%s%d", slowPodPrefix, i))
		s.createApp(names[i], rollingReplicas)
	}
	s.waitReady(names...)
	s.waitQuiet()
	all := s.recordRequests(func() {
		var group sync.WaitGroup
		for i, name := range names {
			rounds := *updates / *parallelism
			if i < *updates%*parallelism {
				rounds++
			}
			group.Go(func() { s.rollImages(name, rounds) })
		}
		group.Wait()
	})
	var each []audit.Events
	for _, name := range names {
		each = append(each, splitByUpdate(all, name)...)
	}
	// Lists belong to no AppService, so they are not counted.
	s.table.add(updateRow(each, countByApp(operatorRequests(all), names)[""]))
}

func (s *harness) rollImages(name string, rounds int) {
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns, Name: name}}
	for i := range rounds {
		image := fmt.Sprintf(`{"spec":{"image":"shop/web:%d"}}`, i+2)
		s.check(s.Patch(s.Context(), app, client.RawPatch(types.MergePatchType, []byte(image))))
		// Wait for the edit in the watch first, because until then the old generation is Ready.
		s.waitGeneration(name, app.Generation)
		s.waitReady(name)
		time.Sleep(updatePause) // edit interval
	}
}

func (s *harness) waitGeneration(name string, generation int64) {
	ctx, cancel := context.WithTimeout(s.Context(), waitTimeout)
	defer cancel()
	s.check(s.watcher.WaitFor(ctx, fmt.Sprintf("generation %d of %s", generation, name), func(state watcher.State) bool {
		obj := state.Get(resourceOf(name), s.ns+"/"+name)
		return obj != nil && obj.GetGeneration() >= generation
	}))
}

// splitByUpdate splits the operator's requests for one AppService at each edit.
func splitByUpdate(all audit.Events, name string) []audit.Events {
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

func updateRow(each []audit.Events, unattributed requestCounts) row {
	var childWrites, statusWrites, eventWrites []int
	most := unattributed
	var notes []string
	for _, part := range each {
		t := countRequests(part)
		childWrites, statusWrites, eventWrites = append(childWrites, t[children]), append(statusWrites, t[status]), append(eventWrites, t[events])
		most = most.maxOfEach(t)
		if len(notes) == 0 && (t[status] > maxStatusWrites || t[children] != 1 || t[rejected]+t[reads] > 0) {
			notes = describeSome(part)
		}
	}
	return row{
		Name:   fmt.Sprintf("%d rolling updates of %d replicas, each", len(each), rollingReplicas),
		Budget: fmt.Sprintf("1 child write, status at most %d, 0 rejected, 0 reads", maxStatusWrites),
		Measured: fmt.Sprintf("children %s, status %s, events %s, rejected up to %d, reads up to %d",
			distribution(childWrites), distribution(statusWrites), distribution(eventWrites), most[rejected], most[reads]),
		OK: len(each) == *updates && slices.Min(childWrites) == 1 && slices.Max(childWrites) == 1 &&
			slices.Max(statusWrites) <= maxStatusWrites && most[rejected]+most[reads]+most[otherWrites] == 0,
		Notes: notes,
	}
}
