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
	objects       = flag.Int("objects", shortOrLong(1_000, 20_000), "number of objects of applications")
	unrelatedMaps = flag.Int("configmaps", shortOrLong(2_000, 50_000), "number of unrelated ConfigMaps")
	profiles      = flag.String("profiles", "", "directory for heap profiles of the center")
)

// shortOrLong returns the value of the full run if HOLDFAST_LONG is set.
func shortOrLong(short, long int) int {
	if os.Getenv("HOLDFAST_LONG") != "" {
		return long
	}
	return short
}

const (
	// perApplication is the number of objects per application.
	perApplication = 20
	// maxResident is the maximum memory for 20,000 objects of 1,000 applications.
	maxResident = 250 << 20
	// maxPerObject is the maximum heap per object. Together with garbage (the heap doubles before a collection)
	// and the base memory of the process, it results in maxResident.
	maxPerObject = 5_000
	// maxPerConfigMap is the maximum heap per unrelated ConfigMap in a namespace with applications.
	maxPerConfigMap = 800
)

// TestMemory fills a cluster and compares the memory of the center with client-go informers for the same
// objects.
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

	t.Logf("%-38s %8s %10s %8s %8s %8s %8s", "process", "objects", "per object", "heap", "RSS", "peak", "live in")
	for _, what := range probeTargets() {
		a, b := before[what], after[what]
		t.Logf("%-38s %8d %8.0f B %8s %8s %8s %7.1fs", what, b.Objects, heapPerObject(a, b), mib(b.Heap), mib(b.Resident), mib(b.Peak), b.SyncTime.Seconds())
	}
	centerReport := after[probeCenter]
	if got := heapPerObject(before[probeCenter], centerReport); got > maxPerObject {
		t.Errorf("the center uses %.0f bytes of heap per object, want at most %d", got, maxPerObject)
	}
	if centerReport.Peak > maxResident {
		t.Errorf("the center used %s for %d objects, want at most %s", mib(centerReport.Peak), centerReport.Objects, mib(maxResident))
	}
	if os.Getenv("HOLDFAST_LONG") != "" {
		compareGCSettings(t, plane.Config, applications)
	}
	testUnrelatedConfigMaps(t, plane.Config, c, applications)
}

// recommendedEnv are the settings of the center's container. They limit garbage to half of the live heap and
// return the memory of the initial lists.
var recommendedEnv = []string{"GOGC=50", "GOMEMLIMIT=450MiB"}

// probeTargets returns the compared processes. A short run measures only the center.
func probeTargets() []string {
	if os.Getenv("HOLDFAST_LONG") == "" {
		return []string{probeCenter}
	}
	return []string{probeCenter, probeInformers, probeTrimmedInformers}
}

// measureAll measures all processes, one after the other.
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

// heapPerObject returns the heap per additional object.
func heapPerObject(a, b memoryReport) float64 {
	return (float64(b.Heap) - float64(a.Heap)) / float64(b.Objects-a.Objects)
}

func mib(bytes uint64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// compareGCSettings measures different settings of the garbage collector.
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

// testUnrelatedConfigMaps checks that no ConfigMap is stored for namespaces without applications, and that little
// more than the name is stored for unrelated ConfigMaps in other namespaces.
func testUnrelatedConfigMaps(t *testing.T, config *rest.Config, c *populator, applications int) {
	t.Helper()
	namespaces := max(1, *unrelatedMaps/1_000)
	namespaceFor := func(i int) string { return fmt.Sprintf("other-%d", i%namespaces) }
	parallel(t, 0, namespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, namespaceFor(i)) })
	parallel(t, 0, *unrelatedMaps, func(ctx context.Context, i int) error { return c.createUnrelatedConfigMap(ctx, namespaceFor(i), i) })
	h := startProbe(t, config, probeCenter, recommendedEnv...)
	without := h.waitStable(func(now memoryReport) bool { return now.Applications == applications })
	if own := without.ConfigMaps; own >= applications+*unrelatedMaps/100 {
		t.Errorf("%d ConfigMaps are stored, want only the ConfigMaps of %d applications", own, applications)
	}
	parallel(t, 0, namespaces, func(ctx context.Context, i int) error { return c.Create(ctx, smallStack(namespaceFor(i))) })
	with := h.waitStable(func(now memoryReport) bool {
		return now.Applications == applications+namespaces && now.ConfigMaps >= without.ConfigMaps+*unrelatedMaps
	})
	perMap := (float64(with.Heap) - float64(without.Heap)) / float64(*unrelatedMaps)
	t.Logf("%d unrelated ConfigMaps: %d stored in namespaces without applications, %.0f bytes each in others, with %d more informers; RSS %s, peak %s",
		*unrelatedMaps, without.ConfigMaps-applications, perMap, namespaces, mib(with.Resident), mib(with.Peak))
	if perMap > maxPerConfigMap {
		t.Errorf("an unrelated ConfigMap uses %.0f bytes, want at most %d", perMap, maxPerConfigMap)
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
