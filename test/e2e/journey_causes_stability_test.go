package e2e

import (
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// flappingFaults are faults during which the kubelet updates the pods continuously.
var flappingFaults = []string{"CrashLoop", "ImageNotFound", "OOMKilled", "LivenessRestarts", "ReadinessFailing", "Killed"}

// settleTime covers late events at the beginning of a fault.
const settleTime = 15 * time.Second

// verifyStatusIsStable checks that the operator does not write the status while a fault persists. The only exception is
// the change from Reconciling to Stalled at the deadline, with the same message.
func (s *faultTest) verifyStatusIsStable() {
	duration := 20 * time.Second
	if os.Getenv("HOLDFAST_LONG") != "" {
		duration = 10 * time.Minute
	}
	time.Sleep(settleTime)
	find := func() appkind.Application {
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
	s.Logf("%d status writes in %s (and %d to Stalled), %d container restarts", writes, duration, stalledWrites, s.restartCount()-restarts)
}

func isStalled(app appkind.Application) bool {
	return meta.IsStatusConditionTrue(app.ApplicationStatus().Conditions, appsapi.ConditionStalled)
}

// statusText returns all messages of a status.
func statusText(app appkind.Application) string {
	status := app.ApplicationStatus()
	text := fmt.Sprintf("%+v", status.Causes)
	for _, c := range status.Conditions {
		if c.Type != appsapi.ConditionStalled && c.Type != appsapi.ConditionReconciling {
			text += fmt.Sprintf("%+v", c)
		}
	}
	return text
}

// restartCount returns the restarts of all containers of the application.
func (s *faultTest) restartCount() int32 {
	var n int32
	for _, p := range s.pods() {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += c.RestartCount
		}
	}
	return n
}
