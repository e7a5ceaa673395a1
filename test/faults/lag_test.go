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

// long says whether to take the time that the figures of the report were taken with.
func long() bool { return os.Getenv("HOLDFAST_LONG") != "" }

// TestLag installs a stack for an operator that never sees what it has made, wakes it up
// again and again, and starts it anew: every child is created once.
func TestLag(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	t.Parallel()
	start := time.Now()
	wakes, pause := 50, 100*time.Millisecond
	if long() {
		pause = 1200 * time.Millisecond
	}
	g := newGround(t, operator.Build(t, true))
	w := newWorld(t, g)
	children := func(resource string) bool { return !applications(resource) }
	w.proxy.Hold(children)
	before := oracle.Version(oracle.TimelineOf(w.seen.Events())[0])
	if err := w.installStack(t.Context()); err != nil {
		t.Fatal(err)
	}
	wake := func(n int) {
		for i := range n {
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"example.com/wake":"w%d"}}}`, i)
			app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "shop"}}
			if err := w.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, patch)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(pause)
		}
	}
	wake(wakes)
	// The next leader is shown a world in which nothing has been made yet.
	w.proxy.Freeze(before, children)
	w.proxy.Release()
	w.crash()
	w.lives.Wait()
	if err := w.operator.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	wake(wakes / 5)
	w.proxy.Thaw()
	if err := w.settle(t.Context(), scenario[1].only("AppStack/shop")); err != nil {
		t.Error(err)
	}
	created := map[string]int{}
	for _, e := range w.seen.Events() {
		if e.Type == watch.Added && !e.Listed && controlled(e.Object) {
			created[e.Object.GetKind()+"/"+e.Object.GetName()]++
		}
	}
	twice := 0
	for name, n := range created {
		if n != 1 {
			t.Errorf("%s was created %d times", name, n)
			twice++
		}
	}
	report.Since(t, start, report.Row{Test: "7 cache that never catches up", Generated: 1, Run: 1, Failed: twice,
		Seen: fmt.Sprintf("%d children, %d wake-ups in %s, one restart into the past: %d created twice", len(created), wakes+wakes/5,
			time.Since(start).Round(time.Second), twice)})
}
