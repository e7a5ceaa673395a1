package faults

import (
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/test/faults/oracle"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

// isLongRun reports whether to use the full durations of the report.
func isLongRun() bool { return os.Getenv("HOLDFAST_LONG") != "" }

// TestStaleCacheCreatesChildrenOnce installs a stack with an operator that never observes its writes, triggers it
// repeatedly and restarts it: every child must be created only once.
func TestStaleCacheCreatesChildrenOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	t.Parallel()
	start := time.Now()
	touches, pause := 50, 100*time.Millisecond
	if isLongRun() {
		pause = 1200 * time.Millisecond
	}
	g := newTestCluster(t, operator.Build(t, true))
	w := newWorld(t, g)
	children := func(resource string) bool { return !isApplicationResource(resource) }
	w.proxy.HoldEvents(children)
	before := oracle.ResourceVersion(oracle.NewTimeline(w.watcher.Events())[0])
	if err := w.installStack(t.Context()); err != nil {
		t.Fatal(err)
	}
	touch := func(n int) {
		for i := range n {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/wake":"w%d"}}}`, i)
			app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop"}}
			if err := w.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
		}
	}
	touch(touches)
	// The restarted operator gets a list without the created children.
	w.proxy.ServeStale(before, children)
	w.proxy.ReleaseEvents()
	w.crashAndRestart()
	w.restarts.Wait()
	if err := w.operator.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	touch(touches / 5)
	w.proxy.ServeLive()
	if err := w.waitSettled(t.Context(), scenario[1].wantOnly("AppStack/shop")); err != nil {
		t.Error(err)
	}
	created := map[string]int{}
	for _, e := range w.watcher.Events() {
		if e.Type == watch.Added && !e.FromList && isManaged(e.Object) {
			created[e.Object.GetKind()+"/"+e.Object.GetName()]++
		}
	}
	duplicates := 0
	for name, n := range created {
		if n != 1 {
			t.Errorf("%s: created %d times, want once", name, n)
			duplicates++
		}
	}
	report.WriteTimed(t, start, report.Row{Test: "7 stale cache", Generated: 1, Run: 1, Failed: duplicates,
		Measured: fmt.Sprintf("%d children, %d triggers in %s, one restart with stale state: %d created twice", len(created), touches+touches/5,
			time.Since(start).Round(time.Second), duplicates)})
}
