package e2e

import (
	"os"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// unsteady are faults in which kubelet changes the pods all the time.
var unsteady = []string{"CrashLoop", "ImageNotFound", "OOMKilled", "LivenessRestarts", "ReadinessFailing", "Killed"}

// settles is for what else belongs to the beginning of a fault: an event that tells more.
const settles = 15 * time.Second

// steady lets a fault go on, and sees that the operator, which has said what it is, has
// nothing to add: not a byte of the object changes.
func (s *scene) steady() {
	lasts := 20 * time.Second
	if os.Getenv("HOLDFAST_LONG") != "" {
		lasts = 10 * time.Minute
	}
	time.Sleep(settles)
	find := func() cli.Application {
		app, err := cli.Find(s.Context(), s, s.ns, []string{"app"})
		if err != nil {
			s.Fatal(err)
		}
		return app
	}
	before, restarts := find(), s.restarts()
	time.Sleep(lasts)
	if after := find(); after.GetResourceVersion() != before.GetResourceVersion() {
		s.Errorf("the status was written although nothing changed:\n%+v\n%+v", before.ApplicationStatus(), after.ApplicationStatus())
	}
	s.Logf("0 writes of the status in %s, %d restarts meanwhile", lasts, s.restarts()-restarts)
}

// restarts of the application's containers.
func (s *scene) restarts() int32 {
	var n int32
	for _, p := range s.pods() {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			n += c.RestartCount
		}
	}
	return n
}
