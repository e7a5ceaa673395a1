package e2e

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// unsteady are faults in which kubelet changes the pods all the time.
var unsteady = []string{"CrashLoop", "ImageNotFound", "OOMKilled", "LivenessRestarts", "ReadinessFailing", "Killed"}

// TestSteady lets programs crash, and sees that the operator, which has said so, has nothing
// to add: not a byte of the objects changes. HOLDFAST_LONG looks for ten minutes.
func TestSteady(t *testing.T) {
	installed(t)
	c := newClient(t)
	withRegistry(t)
	lasts := 30 * time.Second
	if os.Getenv("HOLDFAST_LONG") != "" {
		lasts = 10 * time.Minute
	}
	t.Run("faults", func(t *testing.T) {
		for _, name := range unsteady {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := &scene{T: t, Client: c}
				s.play("steady-"+name, faults[name])
				time.Sleep(15 * time.Second) // what else belongs to the beginning: an event that tells more
				app, err := cli.Find(t.Context(), c, s.ns, []string{"app"})
				if err != nil {
					t.Fatal(err)
				}
				before, said := app.GetResourceVersion(), app.ApplicationStatus().DeepCopy()
				restarts := s.restarts()
				time.Sleep(lasts)
				if app, err = cli.Find(t.Context(), c, s.ns, []string{"app"}); err != nil {
					t.Fatal(err)
				}
				if app.GetResourceVersion() != before {
					t.Errorf("the status was written although nothing changed:\n%+v\n%+v", said, app.ApplicationStatus())
				}
				t.Logf("0 writes in %s, %d restarts meanwhile", lasts, s.restarts()-restarts)
			})
		}
	})
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
