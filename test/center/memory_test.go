package center

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

var (
	objects       = flag.Int("objects", shortOrLong(1_000, 20_000), "how many objects applications have")
	unrelatedMaps = flag.Int("configmaps", shortOrLong(2_000, 50_000), "how many ConfigMaps are nobody's")
	profiles      = flag.String("profiles", "", "a folder for heap profiles of the center")
)

// shortOrLong is the full figure where it was asked for: HOLDFAST_LONG=1.
func shortOrLong(short, long int) int {
	if os.Getenv("HOLDFAST_LONG") != "" {
		return long
	}
	return short
}

const (
	// perApplication is how many objects an application of the crowd has.
	perApplication = 20
	// maxResident is the memory for 20,000 objects of 1,000 applications.
	maxResident = 250 << 20
	// maxPerObject is the heap that each of them may need: with the garbage of a heap that doubles
	// before it is collected, and what the process needs anyway, that makes maxResident.
	maxPerObject = 5_000
	// maxPerConfigMap is what a ConfigMap of nobody may need where it has to be known that it is there.
	maxPerConfigMap = 800
)

// TestMemory fills a cluster, and looks at what the center needs to follow it, beside informers of
// client-go that hold the same.
func TestMemory(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	operator.Install(t, plane)
	c := newPopulator(t, plane.Config)
	applications := *objects / perApplication
	nodes := applications*perApplication/perNode/4 + 1
	parallel(t, 0, nodes, c.createNode)
	parallel(t, 0, applications/perNamespace+1, func(ctx context.Context, i int) error { return c.createNamespace(ctx, namespaceOf(i*perNamespace)) })

	before, after := map[string]memoryReport{}, map[string]memoryReport{}
	parallel(t, 0, applications/2, c.createApplication)
	if made := int(c.created.Load()) - nodes; made != applications/2*perApplication {
		t.Fatalf("%d applications have %d objects, want %d each", applications/2, made, perApplication)
	}
	measureAll(t, plane.Config, c, applications/2, before)
	parallel(t, applications/2, applications, c.createApplication)
	measureAll(t, plane.Config, c, applications, after)

	t.Logf("%-38s %8s %10s %8s %8s %8s %8s", "holds", "objects", "per object", "heap", "RSS", "peak", "live in")
	for _, what := range probeTargets() {
		a, b := before[what], after[what]
		t.Logf("%-38s %8d %8.0f B %8s %8s %8s %7.1fs", what, b.Objects, heapPerObject(a, b), mib(b.Heap), mib(b.Resident), mib(b.Peak), b.SyncTime.Seconds())
	}
	centerReport := after[probeCenter]
	if got := heapPerObject(before[probeCenter], centerReport); got > maxPerObject {
		t.Errorf("the center needs %.0f bytes of heap per object, want at most %d", got, maxPerObject)
	}
	if centerReport.Peak > maxResident {
		t.Errorf("the center needed %s for %d objects, want at most %s", mib(centerReport.Peak), centerReport.Objects, mib(maxResident))
	}
	if os.Getenv("HOLDFAST_LONG") != "" {
		compareGCSettings(t, plane.Config, applications)
	}
	testUnrelatedConfigMaps(t, plane.Config, c, applications)
}

// recommendedEnv are the settings that the container of the center should have: with them garbage is
// at most half of what is held, and a first list of everything does not leave it large.
var recommendedEnv = []string{"GOGC=50", "GOMEMLIMIT=450MiB"}

// probeTargets are those that are compared. A short run is about the center alone.
func probeTargets() []string {
	if os.Getenv("HOLDFAST_LONG") == "" {
		return []string{probeCenter}
	}
	return []string{probeCenter, probeInformers, probeTrimmedInformers}
}

// measureAll lets each hold what there is, one after the other.
func measureAll(t *testing.T, config *rest.Config, c *populator, applications int, out map[string]memoryReport) {
	t.Helper()
	for _, what := range probeTargets() {
		t.Run(fmt.Sprintf("%s/%d", what, applications), func(t *testing.T) {
			var settings []string
			if what == probeCenter {
				settings = recommendedEnv
			}
			h := startProbe(t, config, what, settings...)
			out[what] = h.waitStable(func(now memoryReport) bool {
				return now.Objects >= int(c.created.Load()) && (what != probeCenter || now.Applications == applications)
			})
			if what == probeCenter && *profiles != "" {
				h.query("profile " + filepath.Join(*profiles, fmt.Sprintf("%d.pprof", applications)))
			}
		})
	}
}

// heapPerObject is the heap that one more object needs.
func heapPerObject(a, b memoryReport) float64 {
	return (float64(b.Heap) - float64(a.Heap)) / float64(b.Objects-a.Objects)
}

func mib(bytes uint64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// compareGCSettings shows what settings of the garbage collector make of it.
func compareGCSettings(t *testing.T, config *rest.Config, applications int) {
	t.Helper()
	t.Logf("%-38s %8s %8s %8s", "settings", "RSS", "peak", "live in")
	for _, env := range [][]string{{"GOGC=100"}, {"GOGC=50"}, {"GOGC=100", "GOMEMLIMIT=450MiB"}} {
		t.Run(fmt.Sprint(env), func(t *testing.T) {
			h := startProbe(t, config, probeCenter, env...)
			got := h.waitStable(func(now memoryReport) bool { return now.Applications == applications })
			t.Logf("%-38s %8s %8s %7.1fs", fmt.Sprint(env), mib(got.Resident), mib(got.Peak), got.SyncTime.Seconds())
		})
	}
}

// testUnrelatedConfigMaps are ConfigMaps that are nobody's: where there is no application none is held, and where
// there is one, little more than their names.
func testUnrelatedConfigMaps(t *testing.T, config *rest.Config, c *populator, applications int) {
	t.Helper()
	namespaces := max(1, *unrelatedMaps/1_000)
	namespaceFor := func(i int) string { return fmt.Sprintf("other-%d", i%namespaces) }
	parallel(t, 0, namespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, namespaceFor(i)) })
	parallel(t, 0, *unrelatedMaps, func(ctx context.Context, i int) error { return c.createUnrelatedConfigMap(ctx, namespaceFor(i), i) })
	h := startProbe(t, config, probeCenter, recommendedEnv...)
	without := h.waitStable(func(now memoryReport) bool { return now.Applications == applications })
	if own := without.ConfigMaps; own >= applications+*unrelatedMaps/100 {
		t.Errorf("%d ConfigMaps are held, of which %d applications have one each, and the others are in namespaces without any", own, applications)
	}
	parallel(t, 0, namespaces, func(ctx context.Context, i int) error { return c.Create(ctx, smallStack(namespaceFor(i))) })
	with := h.waitStable(func(now memoryReport) bool {
		return now.Applications == applications+namespaces && now.ConfigMaps >= without.ConfigMaps+*unrelatedMaps
	})
	perMap := (float64(with.Heap) - float64(without.Heap)) / float64(*unrelatedMaps)
	t.Logf("%d ConfigMaps of nobody: %d held where there is no application, %.0f bytes each where there is one, with %d informers more; RSS %s, peak %s",
		*unrelatedMaps, without.ConfigMaps-applications, perMap, namespaces, mib(with.Resident), mib(with.Peak))
	if perMap > maxPerConfigMap {
		t.Errorf("a ConfigMap of nobody needs %.0f bytes, want at most %d", perMap, maxPerConfigMap)
	}
	if *profiles != "" {
		h.query("profile " + filepath.Join(*profiles, "configmaps.pprof"))
	}
	parallel(t, 0, namespaces, func(ctx context.Context, i int) error {
		return client.IgnoreNotFound(c.Delete(ctx, smallStack(namespaceFor(i))))
	})
	h.waitStable(func(now memoryReport) bool {
		return now.Applications == applications && now.ConfigMaps == without.ConfigMaps
	})
}
