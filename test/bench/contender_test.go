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

// contender is one way to make what users declared.
type contender struct {
	results.Contender
	// prepare starts it. What it returns declares applications and returns when all of them
	// are what was declared.
	prepare func(s *harness) (bringUp func(from, to int))
	// writesEvents says that it tells about each application what the operator tells.
	writesEvents bool
	// user is whom the API server sees.
	user string
	// reference has what the operator writes, which the children are held against; nil for who sends just that.
	reference *requestBodies
}

// bareApply is the limit: the writes of the operator, and nothing else.
func bareApply(bodies *requestBodies) contender {
	return contender{
		Contender:    results.Contender{ID: results.BareContender, Name: "bare client-go, apply", About: "The same writes as Holdfast's, with nothing in between: no cache, no queue, no comparing."},
		writesEvents: true, user: operator.User,
		prepare: func(s *harness) func(int, int) {
			b := newBareClient(s, bodies)
			return func(from, to int) {
				s.runBare(b, from, to)
				s.waitAllReady(to) // the clock stops for all when a watch has seen that all are Ready
			}
		},
	}
}

// bareCreate is what those do who never look again.
func bareCreate(bodies *requestBodies) contender {
	return contender{
		Contender: results.Contender{ID: "C0", Name: "bare client-go, create", About: "Creates the children and writes a status once; its clock stops when all is answered, as it never says Ready."},
		user:      operator.User,
		prepare: func(s *harness) func(int, int) {
			b := newBareClient(s, bodies)
			b.createOnly = true
			return func(from, to int) { s.runBare(b, from, to) }
		},
	}
}

// holdfastContender is the operator.
func holdfastContender() contender {
	return contender{
		Contender:    results.Contender{ID: "C1", Name: "Holdfast", About: "The operator of this repository, alone and so without leader election; otherwise with the flags and the environment it is installed with."},
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

// peerContender is a program of somebody else, or one that we wrote as the literature teaches it.
func peerContender(id, name, about string) contender {
	p, err := peers.ByName(name)
	if err != nil {
		panic(err) // a name in this file
	}
	return contender{
		Contender: results.Contender{ID: id, Name: name, About: about}, user: p.User(),
		prepare: func(s *harness) func(int, int) {
			s.measuredProcess = p.Start(s, s.plane, workers)
			if p.Kind.Kind == "AppService" {
				return s.createAndWait
			}
			s.restartControllerManager() // with the kind that it has just defined
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

// allPeers are those that everything is compared with.
func allPeers() []contender {
	return []contender{
		peerContender("C2", "sample", "The pattern of the sample-controller, written by us as the literature teaches it: typed informers, a workqueue, create what is missing, update what differs, status and an event on every pass."),
		peerContender("C3", "kubebuilder", "The pattern of the kubebuilder book, written by us as it is taught: a finalizer, CreateOrUpdate for each child, status on every pass."),
		peerContender("C4", "kro-stock", "kro v0.9.4 as it is released, with a ResourceGraphDefinition."),
		peerContender("C4t", "kro-tuned", "The same with as many workers as Holdfast and a requeue of 100 ms instead of 3 s."),
		peerContender("C4e", "kro-events", "The same, woken by events alone; what fails is then not tried again."),
		peerContender("C5", "fluxssa", "The apply engine of Flux (fluxcd/pkg/ssa v0.78.0) with the least possible controller around it. Ready means applied: it waits for nothing."),
	}
}

// measureContender brings up applications on a control plane of their own. With fsync etcd is as durable as
// in production; without, the disk of this machine is not measured.
func measureContender(t *testing.T, c contender, n int, fsync bool) results.Sample {
	s := newHarness(t, controlplane.Options{Fsync: fsync})
	s.countCalls(c.user)
	bringUp := c.prepare(s)
	s.waitAllIdle() // who needs longer to prepare has given the control plane more time
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
	s.waitAllIdle() // the controller-manager may be behind, and the last events are on their way
	out.CPUSeconds = s.usage().since(before)
	out.Calls, out.Revisions = s.calls()-calls, s.etcdRevision()-revision
	out.EtcdMB = s.etcdSizeMB() - etcd
	s.verifyDeploymentsObserved(n)
	s.verify(c, n)
	if s.Failed() {
		s.FailNow() // who has not made everything was not measured
	}
	if s.measuredProcess != nil {
		out.PeakRSSMB, _ = residentMemory(t, s.measuredProcess.Pid())
		s.must(s.measuredProcess.Stop(10 * time.Second))
	}
	return out
}

// countRequests lets a contender bring up applications while every request is written down. The
// first of the applications tells which of them were for it.
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

// verify shows that nothing is compared that is not the same.
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
