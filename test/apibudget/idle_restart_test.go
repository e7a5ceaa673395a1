package apibudget

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// idleAfterRestart is the time after a restart without requests, in the full profile.
const idleAfterRestart = 20 * time.Second

// measureIdle checks that the operator sends no requests while nothing changes.
func (s *harness) measureIdle() {
	s.table.add(s.idleRow(fmt.Sprintf("%s idle for %s", population(), *idlePeriod), func() { time.Sleep(*idlePeriod) }))
}

// population describes all applications.
func population() string { return fmt.Sprintf("%d apps, %d stacks", *apps, *stacks) }

// idleRow returns a row in which the operator must not send requests.
func (s *harness) idleRow(name string, f func()) row {
	s.Helper()
	got := operatorRequests(s.recordRequests(f))
	return row{
		Name: name, Budget: "0 reads, 0 writes", Measured: fmt.Sprintf("%d reads, %d writes", countRequests(got)[reads], len(got.Writes())),
		OK: len(got) == 0, Notes: describeSome(got),
	}
}

// measureRestart restarts the operator with SIGTERM and SIGKILL. After SIGKILL it starts without leader election,
// to avoid waiting until the old Lease expires.
func (s *harness) measureRestart() {
	s.measureRestartBy(fmt.Sprintf("restart with %s after SIGTERM", population()), func() {
		s.must(s.op.Signal(syscall.SIGTERM))
		<-s.op.Exited()
		s.must(s.op.Start())
		s.must(s.op.WaitReady(s.Context()))
	})
	s.measureRestartBy(fmt.Sprintf("restart with %s after SIGKILL", population()), func() {
		s.must(s.op.Kill())
		s.startOperator(operator.Options{})
	})
}

// watched are the resources in the operator's cache. Each is listed once.
var watched = []string{
	"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev", "cloudmanagers.apps.holdfast.dev",
	"deployments.apps", "statefulsets.apps", "services", "jobs.batch", "cronjobs.batch", "controllerrevisions.apps",
	"horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "ingresses.networking.k8s.io",
	"pods", "configmaps", "secrets", "persistentvolumeclaims",
	"configmaps", // metadata of all, content of Holdfast's own
}

func (s *harness) measureRestartBy(name string, restart func()) {
	got, key := splitHashKeyRequests(operatorRequests(s.recordRequests(restart)))
	s.table.add(hashKeyRow(name, requestCounts{reads: 1}, key)) // to detect that the key was lost
	writes, discovery, unexpected := len(got.Writes()), 0, 0
	lists := map[string]int{}
	var notes []string
	for _, e := range got.Reads() {
		switch {
		case e.ObjectRef.Resource == "":
			discovery++
			notes = append(notes, "discovery: "+e.Verb+" "+e.RequestURI)
		case e.Verb == "list" || e.Verb == "watch":
			lists[e.Resource()]++
			notes = append(notes, "initial: "+e.Verb+" "+e.RequestURI)
		default:
			unexpected++
			notes = append(notes, "unexpected: "+e.Verb+" "+e.RequestURI)
		}
	}
	want := map[string]int{}
	for _, resource := range watched {
		want[resource]++
	}
	slices.Sort(notes)
	s.table.add(row{
		Name: name, Budget: fmt.Sprintf("0 writes, %d initial lists or watches, 0 other reads", len(watched)),
		Measured: fmt.Sprintf("%d writes, %d initial lists or watches, %d other reads (and %d of discovery)", writes, sumCounts(lists), unexpected, discovery),
		OK:       writes == 0 && unexpected == 0 && maps.Equal(lists, want),
		Notes:    append(notes, describeSome(got.Writes())...),
	})
	idle := min(idleAfterRestart, *idlePeriod)
	s.table.add(s.idleRow(fmt.Sprintf("the following %s", idle), func() { time.Sleep(idle) }))
}

// measureAppTouch changes fields that the operator does not manage, on all objects.
func (s *harness) measureAppTouch() {
	names := s.appNames()
	for _, field := range []string{"label", "annotation"} {
		patch := fmt.Sprintf(`{"metadata":{"%ss":{"example.com/touched":"yes"}}}`, field)
		s.table.add(s.idleRow(fmt.Sprintf("foreign %s on %d apps and their children", field, *apps), func() {
			s.patchAll(patch, s.objectsNamed(newAppObject, names), s.objectsNamed(newDeployment, names), s.objectsNamed(newService, names))
		}))
	}
}

// objectsNamed returns objects with the given names.
func (s *harness) objectsNamed(kind func(metav1.ObjectMeta) client.Object, names []string) []client.Object {
	objects := make([]client.Object, len(names))
	for i, name := range names {
		objects[i] = kind(s.objectMeta(name))
	}
	return objects
}

// patchAll patches all objects, several at a time.
func (s *harness) patchAll(patch string, kinds ...[]client.Object) {
	const parallel = 8
	all := slices.Concat(kinds...)
	var group sync.WaitGroup
	for objects := range slices.Chunk(all, len(all)/parallel+1) {
		group.Go(func() {
			for _, obj := range objects {
				s.check(s.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
			}
		})
	}
	group.Wait()
}

func newAppObject(meta metav1.ObjectMeta) client.Object { return &appsapi.AppService{ObjectMeta: meta} }

func sumCounts(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
