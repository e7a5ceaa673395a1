package environment

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

const (
	// hostileEvery is how often somebody flips what we hold.
	hostileEvery = 100 * time.Millisecond
	// repairBurst is how many repairs of an object are made at once; then it is one a second.
	repairBurst = 5
	// mostGrowth is what the race detector and the collector may leave lying about.
	mostGrowth = 24 << 20
)

func init() { together["27 hostile co-controller"] = hostile }

// hostile lets somebody flip a label and the number of pods of a child all the time: it is
// repaired once a second, people are told once, and everything heals when it stops.
func hostile(w *world, row *report.Row) {
	shop := w.create("shop", `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1"}}
- {name: api, service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
`)
	web := &appsapi.AppService{ObjectMeta: w.meta("lone")}
	web.Spec.Image, web.Spec.Replicas = "shop/web:1", new(int32(2))
	w.Expect(w.Create(w.Context(), web)).To(Succeed())
	w.BecomesReady(shop)
	w.BecomesReady(web)
	w.FallsSilent("shop")

	length := lasts(10*time.Second, 5*time.Minute)
	memory := w.weigh(length)
	var flips int
	calls := w.Calls(func() {
		flips = w.flip(length, "shop-api", "lone")
	})
	calm := time.Now()
	w.BecomesReady(shop)
	w.BecomesReady(web)
	healed := time.Since(calm)
	begins, ends := memory()

	var most int
	for _, name := range []string{"shop-api", "lone"} {
		repairs := len(calls.Of("deployments.apps").Writes().Where(func(e *audit.Event) bool { return e.Accepted() && e.ObjectRef.Name == name }))
		most = max(most, repairs)
		w.Expect(repairs).To(BeNumerically("<=", repairBurst+int(length.Seconds())+1), "%s:\n%s", name, calls.Count())
		if long { // for a few seconds, on a busy machine, others may be faster every time
			w.Expect(repairs).To(BeNumerically(">=", 1), name)
		}
	}
	status := len(calls.Of("appstacks.apps.holdfast.dev", "appservices.apps.holdfast.dev").Writes())
	w.Expect(status).To(BeNumerically("<=", 24), "the status flaps until the fight is known, and no longer:\n%s", calls.Count())
	for kind, name := range map[string]string{"AppStack": "shop", "AppService": "lone"} {
		w.Expect(w.told(kind, name, "RepairThrottled")).To(Equal(1), name)
	}
	if long {
		w.Expect(ends-begins).To(BeNumerically("<", mostGrowth), "memory grows with a fight")
	}
	w.Settles(shop, &appsv1.Deployment{ObjectMeta: w.meta("shop-api")})
	w.Settles(web, &appsv1.Deployment{ObjectMeta: w.meta("lone")})
	row.Run = flips
	row.Seen = fmt.Sprintf("%d flips in %.0f s; at most %d repairs of an object (%.2f/s beyond the burst), %d status writes, one event each; "+
		"resident memory %d MiB, %d MiB at the end; healed after %.1f s",
		flips, length.Seconds(), most, max(0, float64(most-repairBurst)/length.Seconds()), status, begins>>20, ends>>20, healed.Seconds())
}

// flip changes Deployments until the time is over.
func (w *world) flip(length time.Duration, names ...string) int {
	var group sync.WaitGroup
	var flips atomic.Int64
	start := time.Now()
	for _, name := range names {
		group.Go(func() {
			tick := time.NewTicker(hostileEvery)
			defer tick.Stop()
			for i := 0; time.Since(start) < length; i++ {
				body := fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i/2%2)
				if i%2 == 0 {
					body = fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"theirs-%d"}}}`, i)
				}
				w.patch(&appsv1.Deployment{ObjectMeta: w.meta(name)}, "%s", body)
				flips.Add(1)
				<-tick.C
			}
		})
	}
	group.Wait()
	return int(flips.Load())
}

// told is how often an event about an object was sent.
func (w *world) told(kind, name, reason string) int {
	w.Helper()
	var events eventsv1.EventList
	w.Expect(w.List(w.Context(), &events, client.InNamespace(w.NS))).To(Succeed())
	count := 0
	for i := range events.Items {
		e := &events.Items[i]
		if e.Regarding.Kind != kind || e.Regarding.Name != name || e.Reason != reason {
			continue
		}
		count++
		if e.Series != nil {
			count += int(e.Series.Count) - 1
		}
	}
	return count
}

// weigh takes the resident memory of the operator every second. The first third of the time
// is for getting used to it: what is returned are the medians of the second and the last.
func (w *world) weigh(length time.Duration) func() (begins, ends int64) {
	var samples []int64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			samples = append(samples, w.memory())
			select {
			case <-done:
				return
			case <-time.After(max(length/60, 100*time.Millisecond)):
			}
		}
	}()
	median := func(some []int64) int64 { return slices.Sorted(slices.Values(some))[len(some)/2] }
	return func() (int64, int64) {
		close(done)
		<-ended
		third := len(samples) / 3
		return median(samples[third : 2*third+1]), median(samples[2*third:])
	}
}

// memory is the resident memory of the operator.
func (w *world) memory() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.Operator.Pid()))
	if err != nil {
		w.Errorf("weigh the operator: %v", err)
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		w.Errorf("weigh the operator: %v", err)
	}
	return kilobytes << 10
}
