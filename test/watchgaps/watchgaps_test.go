// Package watchgaps proves kubectl holdfast watch: thousands of changes by several writers,
// while connections are cut and versions expire, and what it printed adds up to what there is.
//
// Safety rule: the judge believes nothing that watch says about itself. What was written is
// known from the answers to the writers, what there is from a list of its own.
package watchgaps

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

func TestMain(m *testing.M) { harness.Main(m) }

// longRun asks for the full figures: HOLDFAST_LONG=1 go test ./test/watchgaps.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// faultCounts are how much happens.
type faultCounts struct {
	changes, cuts, expiries int
}

// markersPerExpiry is how many objects the judge makes while the watch is blind.
const markersPerExpiry = 5

// watchedResources is all that is cut and expired: the writers and the judge have their own way.
var watchedResources = proxy.Only("configmaps")

// world is a control plane, and a watch of one of its namespaces through a proxy.
type world struct {
	*testing.T
	plane       *controlplane.Plane
	proxy       *proxy.Proxy
	client      kubernetes.Interface
	ns          string
	command     *watchCommand
	markerCount int
}

// TestWatchFromCacheLosesNothing has the watch answered from the API server's memory, as everywhere. The proxy
// says that a version is too old; that it really is takes a restart of the API server, which
// is left to the long run.
func TestWatchFromCacheLosesNothing(t *testing.T) {
	n, expire := faultCounts{changes: 1_000, cuts: 5, expiries: 1}, []func(*world){(*world).expireWatch}
	if longRun {
		n = faultCounts{changes: 10_000, cuts: 50, expiries: 5}
		expire = []func(*world){(*world).restartAPIServer, (*world).expireWatch}
	}
	w := newWorld(t, nil)
	w.runFaults(n, func(i int) { expire[i%len(expire)](w) })
}

// TestWatchFromEtcdLosesNothing has the watch answered by etcd, which forgets by compaction.
func TestWatchFromEtcdLosesNothing(t *testing.T) {
	n := faultCounts{changes: 1_000, cuts: 5, expiries: 1}
	if longRun {
		n = faultCounts{changes: 10_000, cuts: 50, expiries: 5}
	}
	w := newWorld(t, []string{"--watch-cache-sizes=configmaps#0"})
	w.runFaults(n, func(int) { w.compactUnseen() })
}

func newWorld(t *testing.T, apiServerArgs []string) *world {
	plane := testutil.ControlPlane(t, controlplane.Options{
		NoControllerManager: true, ExtraArgs: map[string][]string{"kube-apiserver": apiServerArgs},
	})
	p, err := proxy.Start(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	w := &world{T: t, plane: plane, proxy: p, client: kubernetes.NewForConfigOrDie(plane.Config), ns: testutil.Namespace(t, plane.Config)}
	for range 3 {
		w.createMarker() // exists before the watch
	}
	w.command = startWatch(t, p.Config, w.ns)
	w.waitConnected()
	return w
}

// runFaults makes changes while things go wrong, and judges what was printed.
func (w *world) runFaults(n faultCounts, expire func(i int)) {
	startedAt := time.Now()
	running := startWriters(w, n.changes)
	for i := range n.cuts + n.expiries {
		// Spread over the writing, which tells how far it is.
		running.waitForChanges(w.Context(), (i+1)*n.changes/(n.cuts+n.expiries+1))
		if every := (n.cuts + n.expiries) / n.expiries; i%every == every-1 && i/every < n.expiries {
			expire(i / every)
			continue
		}
		w.closeWatch()
	}
	running.wait()
	name := w.createMarker()
	w.waitFor("the watch to catch up", func() bool { return w.command.hasPrinted(name) })
	printed := w.command.interrupt()
	w.checkOutput(n, running, printed)
	c := printed.ended.Counts
	w.Logf("%d changes written in %s, %d printed; %d cuts, %d expiries; watch counted %d reconnects and %d re-lists",
		running.done, time.Since(startedAt).Round(time.Second), len(printed.changes), n.cuts, n.expiries, c.Reconnects, c.Relists)
}

// closeWatch ends the connection of the watch, once there is one.
func (w *world) closeWatch() {
	w.waitConnected()
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // anywhere in the stream
	if w.proxy.CloseWatches(watchedResources) == 0 {
		w.Error("there was nothing to cut")
	}
}

// waitConnected waits until the watch is there.
func (w *world) waitConnected() {
	w.waitFor("the watch to connect", func() bool { return w.proxy.OpenWatches(watchedResources) > 0 })
}

// expireWatch lets the watch miss some changes, and the answer to its next try is 410.
func (w *world) expireWatch() {
	w.whileBlind(func() {
		if w.proxy.ExpireWatches(watchedResources) == 0 {
			w.Error("there was nothing to expire")
		}
	})
}

// restartAPIServer restarts the API server: its memory begins with what there is then.
func (w *world) restartAPIServer() {
	w.whileBlind(func() {
		if err := w.plane.APIServer.Kill(); err != nil {
			w.Error(err)
		}
		w.proxy.CloseWatches(watchedResources)
		if err := w.plane.APIServer.Start(); err != nil {
			w.Error(err)
		}
		if err := w.plane.WaitReady(w.Context()); err != nil {
			w.Error(err)
		}
	})
}

// compactUnseen lets etcd forget everything that the watch has not seen.
func (w *world) compactUnseen() {
	w.whileBlind(func() {
		if err := compactEtcd(w.Context(), w.plane.EtcdURL, w.currentVersion()); err != nil {
			w.Error(err)
		}
		w.proxy.CloseWatches(watchedResources)
	})
}

// whileBlind lets the watch miss some changes and then does something to it. It returns when the
// watch has listed anew.
func (w *world) whileBlind(expire func()) {
	w.waitConnected()
	relists := w.command.relists()
	w.proxy.HoldEvents(watchedResources)
	// At least these: the writers go on, too.
	for range markersPerExpiry {
		w.createMarker()
	}
	expire()
	w.proxy.ReleaseEvents()
	w.waitFor("the watch to list anew", func() bool { return w.command.relists() > relists })
}

// createMarker makes an object that nobody else touches and returns its name.
func (w *world) createMarker() string {
	w.markerCount++
	cm := configMap(fmt.Sprintf("judge-%d", w.markerCount), map[string]string{"writer": "judge"})
	made, err := w.client.CoreV1().ConfigMaps(w.ns).Create(w.Context(), cm, metav1.CreateOptions{FieldManager: "judge"})
	if err != nil {
		w.Fatal(err)
	}
	return made.Name
}

// currentVersion is that of the present.
func (w *world) currentVersion() string {
	list, err := w.client.CoreV1().ConfigMaps(w.ns).List(w.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.Fatal(err)
	}
	return list.ResourceVersion
}

func (w *world) waitFor(what string, ok func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			w.Fatalf("waited for %s; the watch printed last:\n%s", what, w.command.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func objectName(i int) string { return fmt.Sprintf("object-%d", i) }
