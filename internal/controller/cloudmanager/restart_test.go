package cloudmanager

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// TestRestartIsNoNews starts the operator again beside a CloudManager that is Ready: it asks the database anew, and
// nobody is told that it does, for nothing has happened.
func TestRestartIsNoNews(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.ByTag(behaviors), operator.Options{})
	w := &world{s.World(t)}
	w.create(asItIs)
	w.becomesReady()
	w.FallsSilent(w.named().Name)
	restarts := func() bool {
		before := stage.Find(w.World, w.named()).ResourceVersion
		w.Expect(s.Operator.Kill()).To(Succeed())
		w.Expect(s.Operator.Start()).To(Succeed())
		w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
		time.Sleep(3 * time.Second)
		return stage.Find(w.World, w.named()).ResourceVersion == before
	}
	// A visit that takes longer than a second is told, as it is on a machine that has no core for it.
	silent := false
	for try := 0; try < 3 && !silent; try++ {
		silent = restarts()
	}
	w.Expect(silent).To(BeTrue(), "%+v", stage.Find(w.World, w.named()).Status)
}
