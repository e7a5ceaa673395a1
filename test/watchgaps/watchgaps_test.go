// Package watchgaps tests kubectl holdfast watch with thousands of changes by several writers while connections
// break and resource versions expire. The replayed output must match the cluster.
//
// Safety rule: the test does not rely on the counters of the watch. It uses the responses to the writers and its
// own list of the objects.
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

// longRun enables the full run: HOLDFAST_LONG=1 go test ./test/watchgaps.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// faultCounts is the number of faults and changes of a run.
type faultCounts struct {
	changes, cuts, expiries int
}

// markersPerExpiry is the number of marker objects that the test creates while the watch is interrupted.
const markersPerExpiry = 5

// watchedResources are the requests that faults affect. The writers and the test bypass the proxy.
var watchedResources = proxy.Only("configmaps")

// world is a control plane with a watch of one namespace through a proxy.
type world struct {
	*testing.T
	plane       *controlplane.Plane
	proxy       *proxy.Proxy
	client      kubernetes.Interface
	ns          string
	command     *watchCommand
	markerCount int
}

// TestWatchFromCacheLosesNothing uses the watch cache of the API server, the default. The proxy returns 410 for
// resource versions. Only the long run restarts the API server, so that resource versions really expire.
func TestWatchFromCacheLosesNothing(t *testing.T) {
	n, expire := faultCounts{changes: 1_000, cuts: 5, expiries: 1}, []func(*world){(*world).expireWatch}
	if longRun {
		n = faultCounts{changes: 10_000, cuts: 50, expiries: 5}
		expire = []func(*world){(*world).restartAPIServer, (*world).expireWatch}
	}
	w := newWorld(t, nil)
	w.runFaults(n, func(i int) { expire[i%len(expire)](w) })
}

// TestWatchFromEtcdLosesNothing disables the watch cache. Resource versions expire by compaction of etcd.
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
		w.createMarker() // created before the watch starts
	}
	w.command = startWatch(t, p.Config, w.ns)
	w.waitConnected()
	return w
}

// runFaults makes changes during faults and checks the output.
func (w *world) runFaults(n faultCounts, expire func(i int)) {
	startedAt := time.Now()
	running := startWriters(w, n.changes)
	for i := range n.cuts + n.expiries {
		// Spread the faults evenly over the writes.
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
	w.Logf("%d changes written in %s, %d printed; %d disconnects, %d expiries; the watch counted %d reconnects and %d re-lists",
		running.done, time.Since(startedAt).Round(time.Second), len(printed.changes), n.cuts, n.expiries, c.Reconnects, c.Relists)
}

// closeWatch closes the connection of the watch.
func (w *world) closeWatch() {
	w.waitConnected()
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // random position in the stream
	if w.proxy.CloseWatches(watchedResources) == 0 {
		w.Error("the watch had no connection to close")
	}
}

// waitConnected waits until the watch is connected.
func (w *world) waitConnected() {
	w.waitFor("the watch to connect", func() bool { return w.proxy.OpenWatches(watchedResources) > 0 })
}

// expireWatch interrupts the watch during some changes and returns 410 for its next request.
func (w *world) expireWatch() {
	w.whileBlind(func() {
		if w.proxy.ExpireWatches(watchedResources) == 0 {
			w.Error("the watch did not send a request to expire")
		}
	})
}

// restartAPIServer restarts the API server, which empties its watch cache.
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

// compactUnseen compacts all revisions that the watch has not received.
func (w *world) compactUnseen() {
	w.whileBlind(func() {
		if err := compactEtcd(w.Context(), w.plane.EtcdURL, w.currentVersion()); err != nil {
			w.Error(err)
		}
		w.proxy.CloseWatches(watchedResources)
	})
}

// whileBlind calls expire while the watch receives no events and misses changes. It returns after the watch has
// listed again.
func (w *world) whileBlind(expire func()) {
	w.waitConnected()
	relists := w.command.relists()
	w.proxy.HoldEvents(watchedResources)
	// Markers guarantee some missed changes; the writers add more.
	for range markersPerExpiry {
		w.createMarker()
	}
	expire()
	w.proxy.ReleaseEvents()
	w.waitFor("the watch to list again", func() bool { return w.command.relists() > relists })
}

// createMarker creates an object that the writers do not change, and returns its name.
func (w *world) createMarker() string {
	w.markerCount++
	cm := configMap(fmt.Sprintf("judge-%d", w.markerCount), map[string]string{"writer": "judge"})
	made, err := w.client.CoreV1().ConfigMaps(w.ns).Create(w.Context(), cm, metav1.CreateOptions{FieldManager: "judge"})
	if err != nil {
		w.Fatal(err)
	}
	return made.Name
}

// currentVersion returns the current resource version.
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
			w.Fatalf("timed out waiting for %s; last output of the watch:\n%s", what, w.command.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func objectName(i int) string { return fmt.Sprintf("object-%d", i) }
