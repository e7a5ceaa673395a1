package environment

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// recoveryTimeout is the maximum time until the operator works after the API server is available again.
const recoveryTimeout = 15 * time.Second

// TestAPIServerOutage stops the API server of a leading operator. The test restarts the operator if it exits, as the
// kubelet would. Pods must not be replaced.
func TestAPIServerOutage(t *testing.T) {
	w, row := newWorldAlone(t, "22 API server outage")
	w.Expect(w.Operator.Stop(10 * time.Second)).To(Succeed())
	op := operator.New(w.T, w.Plane, operator.Options{LeaderElection: true, NoRace: !longRun})
	restarts := w.keepRunning(op)
	w.Expect(op.WaitReady(w.Context())).To(Succeed())
	w.createStack("shop", ownershipSpec)
	w.waitReady("shop")
	pods := w.runningPods()
	w.Expect(pods).To(HaveLen(2))

	cases := []time.Duration{time.Second, 30 * time.Second, 10 * time.Minute}
	row.Generated = len(cases)
	for i, downtime := range cases {
		w.Run(downtime.String(), func(t *testing.T) {
			if downtime > time.Second && !longRun {
				t.Skip("takes minutes: HOLDFAST_LONG=1 go test -timeout 30m runs it")
			}
			w := w.forSubtest(t)
			before := restarts()
			w.Expect(w.Plane.APIServer.Kill()).To(Succeed())
			time.Sleep(downtime) // outage of a real API server
			w.Expect(w.Plane.APIServer.Start()).To(Succeed())
			w.Expect(w.Plane.WaitReady(w.Context())).To(Succeed())
			recoveredAt := time.Now()
			app := &appsapi.AppService{ObjectMeta: w.objectMeta(fmt.Sprintf("after-%d", i))}
			app.Spec.Image = "shop/web:1"
			w.Eventually(func() error { return w.Create(w.Context(), app) }, "15s", "100ms").Should(Succeed())
			w.Eventually(func() bool { return w.getDeployment(app.Name) != nil }, "60s", "50ms").Should(BeTrue())
			took := time.Since(recoveredAt)
			row.Run++
			row.Measured += fmt.Sprintf("down for %s: reconciling %.1f s after its return, %d operator restarts, no pod replaced. ", downtime, took.Seconds(), restarts()-before)
			w.Expect(took).To(BeNumerically("<", recoveryTimeout))
			w.WaitReady(app)
			w.waitReady("shop")
			w.Expect(w.runningPods()).To(ContainElements(pods))
			w.Expect(w.Delete(w.Context(), app, client.PropagationPolicy("Foreground"))).To(Succeed())
			w.Eventually(w.runningPods, "60s", "50ms").Should(Equal(pods))
		})
	}
}

// keepRunning starts the operator and restarts it when it exits, as the kubelet does. restarts returns the number of
// restarts.
func (w *world) keepRunning(op *operator.Operator) (restarts func() int) {
	w.Helper()
	w.Expect(op.Start()).To(Succeed())
	done, stopped := make(chan struct{}), make(chan struct{})
	count := make(chan int, 1)
	count <- 0
	w.Cleanup(func() {
		close(done)
		<-stopped
	})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			case <-op.Exited():
			}
			count <- 1 + <-count
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if err := op.Start(); err != nil {
				w.Errorf("restart: %v", err)
				return
			}
		}
	}()
	return func() int {
		n := <-count
		count <- n
		return n
	}
}
