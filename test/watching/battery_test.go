// Package watching proves kubectl holdfast watch: thousands of changes by several writers,
// while connections are cut and versions expire, and what it printed adds up to what there is.
//
// Safety rule: the judge believes nothing that watch says about itself. What was written is
// known from the answers to the writers, what there is from a list of its own.
package watching

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
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

func TestMain(m *testing.M) { stage.Main(m) }

// long asks for the full figures: HOLDFAST_LONG=1 go test ./test/watching.
var long = os.Getenv("HOLDFAST_LONG") != ""

// figures are how much happens.
type figures struct {
	changes, cuts, expiries int
}

// marksPerExpiry is how many objects the judge makes while the watch is blind.
const marksPerExpiry = 5

// watched is all that is cut and expired: the writers and the judge have their own way.
var watched = proxy.Only("configmaps")

// world is a control plane, and a watch of one of its namespaces through a proxy.
type world struct {
	*testing.T
	plane  *controlplane.Plane
	proxy  *proxy.Proxy
	client kubernetes.Interface
	ns     string
	watch  *watch
	marks  int
}

// TestCache has the watch answered from the API server's memory, as everywhere. The proxy
// says that a version is too old; that it really is takes a restart of the API server, which
// is left to the long run.
func TestCache(t *testing.T) {
	n, expire := figures{changes: 1_000, cuts: 5, expiries: 1}, []func(*world){(*world).answer410}
	if long {
		n = figures{changes: 10_000, cuts: 50, expiries: 5}
		expire = []func(*world){(*world).restart, (*world).answer410}
	}
	w := start(t, nil)
	w.play(n, func(i int) { expire[i%len(expire)](w) })
}

// TestEtcd has the watch answered by etcd, which forgets by compaction.
func TestEtcd(t *testing.T) {
	n := figures{changes: 1_000, cuts: 5, expiries: 1}
	if long {
		n = figures{changes: 10_000, cuts: 50, expiries: 5}
	}
	w := start(t, []string{"--watch-cache-sizes=configmaps#0"})
	w.play(n, func(int) { w.compact() })
}

func start(t *testing.T, apiServerArgs []string) *world {
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
		w.last() // exists before the watch
	}
	w.watch = startWatch(t, p.Config, w.ns)
	w.connected()
	return w
}

// play makes changes while things go wrong, and judges what was printed.
func (w *world) play(n figures, expire func(i int)) {
	began := time.Now()
	all := write(w, n.changes)
	for i := range n.cuts + n.expiries {
		// Spread over the writing, which tells how far it is.
		all.await(w.Context(), (i+1)*n.changes/(n.cuts+n.expiries+1))
		if every := (n.cuts + n.expiries) / n.expiries; i%every == every-1 && i/every < n.expiries {
			expire(i / every)
			continue
		}
		w.cut()
	}
	all.wait()
	name := w.last()
	w.eventually("the watch to catch up", func() bool { return w.watch.has(name) })
	printed := w.watch.end()
	w.judge(n, all, printed)
	c := printed.ended.Counts
	w.Logf("%d changes written in %s, %d printed; %d cuts, %d expiries; watch counted %d reconnects and %d re-lists",
		all.done, time.Since(began).Round(time.Second), len(printed.changes), n.cuts, n.expiries, c.Reconnects, c.Relists)
}

// cut ends the connection of the watch, once there is one.
func (w *world) cut() {
	w.connected()
	time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // anywhere in the stream
	if w.proxy.Cut(watched) == 0 {
		w.Error("there was nothing to cut")
	}
}

// connected waits until the watch is there.
func (w *world) connected() {
	w.eventually("the watch to connect", func() bool { return w.proxy.Watches(watched) > 0 })
}

// answer410 lets the watch miss some changes, and the answer to its next try is 410.
func (w *world) answer410() {
	w.blind(func() {
		if w.proxy.Expire(watched) == 0 {
			w.Error("there was nothing to expire")
		}
	})
}

// restart restarts the API server: its memory begins with what there is then.
func (w *world) restart() {
	w.blind(func() {
		if err := w.plane.APIServer.Kill(); err != nil {
			w.Error(err)
		}
		w.proxy.Cut(watched)
		if err := w.plane.APIServer.Start(); err != nil {
			w.Error(err)
		}
		if err := w.plane.WaitReady(w.Context()); err != nil {
			w.Error(err)
		}
	})
}

// compact lets etcd forget everything that the watch has not seen.
func (w *world) compact() {
	w.blind(func() {
		if err := compact(w.Context(), w.plane.EtcdURL, w.version()); err != nil {
			w.Error(err)
		}
		w.proxy.Cut(watched)
	})
}

// blind lets the watch miss some changes and then does something to it. It returns when the
// watch has listed anew.
func (w *world) blind(expire func()) {
	w.connected()
	relists := w.watch.relists()
	w.proxy.Hold(watched)
	// At least these: the writers go on, too.
	for range marksPerExpiry {
		w.last()
	}
	expire()
	w.proxy.Release()
	w.eventually("the watch to list anew", func() bool { return w.watch.relists() > relists })
}

// last makes an object that nobody else touches and returns its name.
func (w *world) last() string {
	w.marks++
	cm := configMap(fmt.Sprintf("judge-%d", w.marks), map[string]string{"writer": "judge"})
	made, err := w.client.CoreV1().ConfigMaps(w.ns).Create(w.Context(), cm, metav1.CreateOptions{FieldManager: "judge"})
	if err != nil {
		w.Fatal(err)
	}
	return made.Name
}

// version is that of the present.
func (w *world) version() string {
	list, err := w.client.CoreV1().ConfigMaps(w.ns).List(w.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		w.Fatal(err)
	}
	return list.ResourceVersion
}

func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			w.Fatalf("waited for %s; the watch printed last:\n%s", what, w.watch.tail())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func name(i int) string { return fmt.Sprintf("object-%d", i) }
