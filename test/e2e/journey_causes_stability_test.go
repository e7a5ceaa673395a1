package e2e

import (
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// flappingFaults are faults in which kubelet changes the pods all the time.
var flappingFaults = []string{"CrashLoop", "ImageNotFound", "OOMKilled", "LivenessRestarts", "ReadinessFailing", "Killed"}

// settleTime is for what else belongs to the beginning of a fault: an event that tells more.
const settleTime = 15 * time.Second

// verifyStatusIsStable lets a fault go on, and sees that the operator, which has said what it is, has
// nothing to add: not a byte of the object changes. But for one thing: who has waited in vain
// until the deadline is Stalled and no longer Reconciling, in the same words.
func (s *faultTest) verifyStatusIsStable() {
	duration := 20 * time.Second
	if os.Getenv("HOLDFAST_LONG") != "" {
		duration = 10 * time.Minute
	}
	time.Sleep(settleTime)
	find := func() application.Application {
		app, err := cli.FindApplication(s.Context(), s, s.ns, []string{"app"})
		if err != nil {
			s.Fatal(err)
		}
		return app
	}
	before, restarts, writes, stalledWrites := find(), s.restartCount(), 0, 0
	for last, end := before, time.Now().Add(duration); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		now := find()
		if now.GetResourceVersion() == last.GetResourceVersion() {
			continue
		}
		if stalledWrites == 0 && isStalled(now) && !isStalled(last) && statusText(now) == statusText(last) {
			stalledWrites++
		} else {
			writes++
			s.Errorf("the status was written although nothing changed:\n%+v\n%+v", last.ApplicationStatus(), now.ApplicationStatus())
		}
		last = now
	}
	s.Logf("%d writes of the status in %s (beside %d that said Stalled), %d restarts meanwhile", writes, duration, stalledWrites, s.restartCount()-restarts)
}

func isStalled(app application.Application) bool {
	return meta.IsStatusConditionTrue(app.ApplicationStatus().Conditions, appsapi.ConditionStalled)
}

// statusText are everything that a status says.
func statusText(app application.Application) string {
	status := app.ApplicationStatus()
	text := fmt.Sprintf("%+v", status.Causes)
	for _, c := range status.Conditions {
		if c.Type != appsapi.ConditionStalled && c.Type != appsapi.ConditionReconciling {
			text += fmt.Sprintf("%+v", c)
		}
	}
	return text
}

// restartCount of the application's containers.
func (s *faultTest) restartCount() int32 {
	var n int32
	for _, p := range s.pods() {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += c.RestartCount
		}
	}
	return n
}
