package bench

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	peers "github.com/holdfast-dev/holdfast/test/bench/contender"
	"github.com/holdfast-dev/holdfast/test/bench/results"
)

// contender is a program that creates the children of applications.
type contender struct {
	results.Contender
	// prepare starts the contender. The returned function creates applications and waits until all are ready.
	prepare func(s *harness) (bringUp func(from, to int))
	// writesEvents means that it writes the same events as the operator.
	writesEvents bool
	// user is its user name.
	user string
	// reference are the operator's requests, to compare the children with; nil if it sends exactly these.
	reference *requestBodies
}

// bareApply makes only the writes of the operator: it is the reference.
func bareApply(bodies *requestBodies) contender {
	return contender{
		Contender:    results.Contender{ID: results.BareContender, Name: "bare client-go, apply", About: "The same writes as Holdfast, sent directly: no cache, no queue, no comparison."},
		writesEvents: true, user: operator.User,
		prepare: func(s *harness) func(int, int) {
			b := newBareClient(s, bodies)
			return func(from, to int) {
				s.runBare(b, from, to)
				s.waitAllReady(to) // the measurement ends for all contenders when a watch has observed that all are Ready
			}
		},
	}
}

// bareCreate creates the objects without any later check.
func bareCreate(bodies *requestBodies) contender {
	return contender{
		Contender: results.Contender{ID: "C0", Name: "bare client-go, create", About: "Creates the children and writes a status once. The measurement ends with the last response, because it never reports Ready."},
		user:      operator.User,
		prepare: func(s *harness) func(int, int) {
			b := newBareClient(s, bodies)
			b.createOnly = true
			return func(from, to int) { s.runBare(b, from, to) }
		},
	}
}

func holdfastContender() contender {
	return contender{
		Contender:    results.Contender{ID: "C1", Name: "Holdfast", About: "The operator of this repository as installed, but without leader election."},
		writesEvents: true, user: operator.User,
		prepare: func(s *harness) func(int, int) {
			env, _ := operator.ManifestSettings(s)
			op := operator.Start(s, s.plane, operator.Options{NoRace: true, Args: s.pprofArgs(), Env: env})
			s.measuredProcess = op.Process
			return s.createAndWait
		},
	}
}

// createAndWait creates applications and waits until all are Ready.
func (s *harness) createAndWait(from, to int) {
	s.createApps(from, to, func(*appsapi.AppService) {})
	s.waitAllReady(to)
}

// peerContender is a third-party program, or a program for the benchmark that follows a documented pattern.
func peerContender(id, name, about string) contender {
	p, err := peers.ByName(name)
	if err != nil {
		panic(err) // the names are constants in this file
	}
	return contender{
		Contender: results.Contender{ID: id, Name: name, About: about}, user: p.User(),
		prepare: func(s *harness) func(int, int) {
			s.measuredProcess = p.Start(s, s.plane, workers)
			if p.Kind.Kind == "AppService" {
				return s.createAndWait
			}
			s.restartControllerManager() // so that it knows the newly defined kind
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(p.Kind.GroupVersion().WithKind(p.Kind.Kind + "List"))
			s.kind = applicationKind{
				list: list, newObject: func(i int) client.Object {
					app := newApp(i)
					return p.App(app.Namespace, app.Name, app.Spec.Image, int64(*app.Spec.Replicas))
				},
				isReady: func(o client.Object) bool {
					app, ok := o.(*unstructured.Unstructured)
					return ok && p.Ready(app)
				},
			}
			s.readiness = s.watchReady()
			return func(from, to int) {
				s.createObjects(from, to, func(client.Object) {})
				s.waitAllReady(to)
			}
		},
	}
}

// allPeers are all peers of the comparison.
func allPeers() []contender {
	return []contender{
		peerContender("C2", "sample", "The sample-controller pattern, implemented for this benchmark as documented: typed informers, a workqueue, create missing objects, update different ones, write status and an event in every reconciliation."),
		peerContender("C3", "kubebuilder", "The pattern of the kubebuilder book, implemented for this benchmark as documented: a finalizer, CreateOrUpdate for each child, a status update in every reconciliation."),
		peerContender("C4", "kro-stock", "kro v0.9.4 as released, with a ResourceGraphDefinition."),
		peerContender("C4t", "kro-tuned", "The same with as many workers as Holdfast and a requeue of 100 ms instead of 3 s."),
		peerContender("C4e", "kro-events", "The same, triggered only by events; failures are not retried."),
		peerContender("C5", "fluxssa", "The apply engine of Flux (fluxcd/pkg/ssa v0.78.0) in a minimal controller. Ready means applied: it does not wait for the Deployment."),
	}
}

// measureContender creates applications on a new control plane. With fsync etcd is as durable as in production; without,
// the disk of the machine has no effect.
func measureContender(t *testing.T, c contender, n int, fsync bool) results.Sample {
	s := newHarness(t, controlplane.Options{Fsync: fsync})
	s.countCalls(c.user)
	bringUp := c.prepare(s)
	s.waitAllIdle() // a longer preparation would give the control plane more time to become idle
	calls, revision, etcd := s.calls(), s.etcdRevision(), s.etcdSizeMB()
	before := s.usage()
	var out results.Sample
	s.withProfile(c.ID, func() {
		start := time.Now()
		bringUp(0, n)
		out.WallSeconds = time.Since(start).Seconds()
	})
	if s.Failed() {
		s.FailNow()
	}
	s.waitAllIdle() // the controller-manager may lag behind, and events are asynchronous
	out.CPUSeconds = s.usage().since(before)
	out.Calls, out.Revisions = s.calls()-calls, s.etcdRevision()-revision
	out.EtcdMB = s.etcdSizeMB() - etcd
	s.verifyDeploymentsObserved(n)
	s.verify(c, n)
	if s.Failed() {
		s.FailNow() // an incomplete result is not a measurement
	}
	if s.measuredProcess != nil {
		out.PeakRSSMB, _ = residentMemory(t, s.measuredProcess.Pid())
		s.must(s.measuredProcess.Stop(10 * time.Second))
	}
	return out
}

// countRequests creates applications with the audit log enabled. It returns the requests and the first application,
// which identifies its own requests.
func countRequests(t *testing.T, c contender, n int) (audit.Events, client.Object) {
	s := newHarness(t, controlplane.Options{Audit: true})
	log, err := audit.Open(s.plane.AuditLog())
	s.must(err)
	bringUp := c.prepare(s)
	time.Sleep(settleTime)
	from, err := log.Mark(t.Context(), s.plane.Config)
	s.must(err)
	bringUp(0, n)
	time.Sleep(settleTime)
	all, err := log.Since(t.Context(), s.plane.Config, from)
	s.must(err)
	s.verify(c, n)
	first := s.kind.newObject(0)
	s.must(s.Get(t.Context(), client.ObjectKeyFromObject(first), first))
	return all.By(c.user), first
}

// verify checks that the results are equal.
func (s *harness) verify(c contender, n int) {
	s.Helper()
	s.verifyChildren(n)
	if c.reference != nil {
		s.verifySameChildren(c.reference)
	}
	if c.writesEvents {
		s.verifyEvents(n)
	}
}
