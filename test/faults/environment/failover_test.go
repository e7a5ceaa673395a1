package environment

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	// failoverAfterKill is the maximum time until a new leader acts after SIGKILL of the old one, failoverAfterTerm
	// after SIGTERM.
	failoverAfterKill = 20 * time.Second
	failoverAfterTerm = 3 * time.Second
)

// TestLeaderFailover runs two operators and repeatedly stops the leader.
func TestLeaderFailover(t *testing.T) {
	w, row := newWorldAlone(t, "23 leader failover")
	w.Expect(w.Operator.Stop(10 * time.Second)).To(Succeed())
	latency, options := w.startLatencyProbe(), operator.Options{LeaderElection: true, NoRace: !longRun}
	leader, standby := operator.New(w.T, w.Plane, options), operator.New(w.T, w.Plane, options)
	for _, op := range []*operator.Operator{leader, standby} {
		w.Expect(op.Start()).To(Succeed())
		w.Expect(op.WaitReady(w.Context())).To(Succeed())
		w.Eventually(w.leaseHolder, "30s", "50ms").ShouldNot(BeEmpty())
	}
	w.timeToFirstWrite("first", time.Now())
	runs := 1
	if longRun {
		runs = 20
	}
	row.Generated = 40
	var killed, terminated []time.Duration
	for i := range runs {
		terminated = append(terminated, w.replaceLeader(leader, fmt.Sprintf("term-%d", i), func() time.Time {
			at := time.Now()
			w.Expect(leader.Stop(10 * time.Second)).To(Succeed())
			return at
		}))
		leader, standby = standby, leader
		killed = append(killed, w.replaceLeader(leader, fmt.Sprintf("kill-%d", i), func() time.Time {
			at := time.Now()
			w.Expect(leader.Signal(syscall.SIGKILL)).To(Succeed())
			<-leader.Exited()
			return at
		}))
		leader, standby = standby, leader
	}
	row.Run = len(killed) + len(terminated)
	row.Measured = fmt.Sprintf("%d leaders were killed: a new one acted after at most %.1f s; %d were terminated: a new one acted after at most %.1f s",
		len(killed), longestSeconds(killed), len(terminated), longestSeconds(terminated))
	w.Expect(longestSeconds(killed)).To(BeNumerically("<=", (failoverAfterKill + latency.grace()).Seconds()))
	w.Expect(longestSeconds(terminated)).To(BeNumerically("<=", (failoverAfterTerm + latency.grace()).Seconds()))
	w.ExpectNoForbiddenRequests(t)
}

// replaceLeader stops the leader, creates an application and returns the time until the new leader acts, by the clock of
// the API server. The stopped operator restarts as the standby.
func (w *world) replaceLeader(leader *operator.Operator, name string, end func() time.Time) time.Duration {
	w.Helper()
	took := w.timeToFirstWrite(name, end())
	w.Expect(leader.Start()).To(Succeed())
	w.Expect(leader.WaitReady(w.Context())).To(Succeed())
	return took
}

// timeToFirstWrite creates an application and waits for the first write of the operator.
func (w *world) timeToFirstWrite(name string, since time.Time) time.Duration {
	w.Helper()
	var first time.Time
	calls := w.OperatorRequests(func() {
		app := &appsapi.AppService{ObjectMeta: w.objectMeta(name)}
		app.Spec.Image = "shop/web:1"
		w.Expect(w.Create(w.Context(), app)).To(Succeed())
		w.Eventually(func() error {
			return w.Get(w.Context(), client.ObjectKeyFromObject(app), &appsv1.Deployment{})
		}, "60s", "20ms").Should(Succeed())
	})
	for _, e := range calls.Writes().Where((*audit.Event).Accepted) {
		if e.ObjectRef.Name == name && (first.IsZero() || e.Received.Before(first)) {
			first = e.Received
		}
	}
	return first.Sub(since)
}

// leaseHolder returns the holder of the Lease.
func (w *world) leaseHolder() string {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: operator.Namespace, Name: "holdfast-operator"}}
	if w.Get(w.Context(), client.ObjectKeyFromObject(lease), lease) != nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
