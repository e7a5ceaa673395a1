package cloudmanager

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// TestOperatorRestartKeepsStatus restarts the operator with a Ready CloudManager: it checks the database again without
// reporting progress.
func TestOperatorRestartKeepsStatus(t *testing.T) {
	t.Parallel()
	s := harness.New(t, harness.BehaviorByTag(behaviors), operator.Options{})
	w := &world{s.NewWorld(t)}
	w.create(unmodified)
	w.waitReady()
	w.WaitIdle(w.cloudManager().Name)
	statusSurvivesRestart := func() bool {
		before := harness.Find(w.World, w.cloudManager()).ResourceVersion
		w.Expect(s.Operator.Kill()).To(Succeed())
		w.Expect(s.Operator.Start()).To(Succeed())
		w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
		time.Sleep(3 * time.Second) // a changed status would be written by then
		return harness.Find(w.World, w.cloudManager()).ResourceVersion == before
	}
	// On an overloaded machine a database check that takes longer than a second is reported.
	unchanged := false
	for try := 0; try < 3 && !unchanged; try++ {
		unchanged = statusSurvivesRestart()
	}
	w.Expect(unchanged).To(BeTrue(), "%+v", harness.Find(w.World, w.cloudManager()).Status)
}
