package calls

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

// afterRestart is how long nothing may follow a restart, in the full profile.
const afterRestart = 20 * time.Second

// rest looks on while nothing happens.
func (s *stage) rest() {
	s.table.add(s.silent(fmt.Sprintf("%s at rest for %s", everything(), *settle), func() { time.Sleep(*settle) }))
}

// everything is what the rows about all of them are about.
func everything() string { return fmt.Sprintf("%d apps, %d stacks", *apps, *stacks) }

// silent is a row in which the operator must not ask for anything.
func (s *stage) silent(name string, f func()) row {
	s.Helper()
	got := ours(s.requests(f))
	return row{
		Name: name, Budget: "0 reads, 0 writes", Measured: fmt.Sprintf("%d reads, %d writes", count(got)[reads], len(got.Writes())),
		OK: len(got) == 0, Notes: sample(got),
	}
}

// restart ends the operator politely and impolitely. The second one comes back without a
// Lease: waiting for the old one to run out would only take time.
func (s *stage) restart() {
	s.restartBy(fmt.Sprintf("restart at %s after SIGTERM", everything()), func() {
		s.must(s.op.Signal(syscall.SIGTERM))
		<-s.op.Exited()
		s.must(s.op.Start())
		s.must(s.op.WaitReady(s.Context()))
	})
	s.restartBy(fmt.Sprintf("restart at %s after SIGKILL", everything()), func() {
		s.must(s.op.Kill())
		s.run(operator.Options{})
	})
}

// watched is what the operator keeps a copy of, each fetched once.
var watched = []string{
	"appservices.apps.holdfast.dev", "appstacks.apps.holdfast.dev", "cloudmanagers.apps.holdfast.dev",
	"deployments.apps", "statefulsets.apps", "services", "jobs.batch", "cronjobs.batch", "controllerrevisions.apps",
	"horizontalpodautoscalers.autoscaling", "poddisruptionbudgets.policy", "ingresses.networking.k8s.io",
	"pods", "configmaps", "secrets", "persistentvolumeclaims",
	"configmaps", // that they exist, and the content of our own
}

func (s *stage) restartBy(name string, again func()) {
	got := ours(s.requests(again))
	writes, discovery, other := len(got.Writes()), 0, 0
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
			other++
			notes = append(notes, "unexpected: "+e.Verb+" "+e.RequestURI)
		}
	}
	once := map[string]int{}
	for _, resource := range watched {
		once[resource]++
	}
	slices.Sort(notes)
	s.table.add(row{
		Name: name, Budget: fmt.Sprintf("0 writes, %d initial lists or watches, 0 other reads", len(watched)),
		Measured: fmt.Sprintf("%d writes, %d initial lists or watches, %d other reads (and %d of discovery)", writes, total(lists), other, discovery),
		OK:       writes == 0 && other == 0 && maps.Equal(lists, once),
		Notes:    append(notes, sample(got.Writes())...),
	})
	quiet := min(afterRestart, *settle)
	s.table.add(s.silent(fmt.Sprintf("the %s after that", quiet), func() { time.Sleep(quiet) }))
}

// touch changes on everything what nobody declared.
func (s *stage) touch() {
	names := s.names()
	for _, field := range []string{"label", "annotation"} {
		patch := fmt.Sprintf(`{"metadata":{"%ss":{"example.com/touched":"yes"}}}`, field)
		s.table.add(s.silent(fmt.Sprintf("foreign %s on %d apps and their children", field, *apps), func() {
			s.touchAll(patch, s.each(anApp, names), s.each(aDeployment, names), s.each(aService, names))
		}))
	}
}

// each returns an object of these names.
func (s *stage) each(kind func(metav1.ObjectMeta) client.Object, names []string) []client.Object {
	objects := make([]client.Object, len(names))
	for i, name := range names {
		objects[i] = kind(s.meta(name))
	}
	return objects
}

// touchAll patches all objects, a few at a time.
func (s *stage) touchAll(patch string, kinds ...[]client.Object) {
	const abreast = 8
	all := slices.Concat(kinds...)
	var group sync.WaitGroup
	for objects := range slices.Chunk(all, len(all)/abreast+1) {
		group.Go(func() {
			for _, obj := range objects {
				s.check(s.Patch(s.Context(), obj, client.RawPatch(types.MergePatchType, []byte(patch))))
			}
		})
	}
	group.Wait()
}

func anApp(meta metav1.ObjectMeta) client.Object { return &appsapi.AppService{ObjectMeta: meta} }

func total(counts map[string]int) int {
	sum := 0
	for _, n := range counts {
		sum += n
	}
	return sum
}
