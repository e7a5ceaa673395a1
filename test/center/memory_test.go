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
	objects  = flag.Int("objects", pick(1_000, 20_000), "how many objects applications have")
	strays   = flag.Int("configmaps", pick(2_000, 50_000), "how many ConfigMaps are nobody's")
	profiles = flag.String("profiles", "", "a folder for heap profiles of the center")
)

// pick is the full figure where it was asked for: HOLDFAST_LONG=1.
func pick(short, long int) int {
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
	// maxPerMap is what a ConfigMap of nobody may need where it has to be known that it is there.
	maxPerMap = 800
)

// TestMemory fills a cluster, and looks at what the center needs to follow it, beside informers of
// client-go that hold the same.
func TestMemory(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	operator.Install(t, plane)
	c := newCrowd(t, plane.Config)
	applications := *objects / perApplication
	nodes := applications*perApplication/perNode/4 + 1
	each(t, 0, nodes, c.node)
	each(t, 0, applications/perNamespace+1, func(ctx context.Context, i int) error { return c.namespace(ctx, namespaceOf(i*perNamespace)) })

	before, after := map[string]held{}, map[string]held{}
	each(t, 0, applications/2, c.application)
	if made := int(c.made.Load()) - nodes; made != applications/2*perApplication {
		t.Fatalf("%d applications have %d objects, want %d each", applications/2, made, perApplication)
	}
	measure(t, plane.Config, c, applications/2, before)
	each(t, applications/2, applications, c.application)
	measure(t, plane.Config, c, applications, after)

	t.Logf("%-38s %8s %10s %8s %8s %8s %8s", "holds", "objects", "per object", "heap", "RSS", "peak", "live in")
	for _, what := range holders() {
		a, b := before[what], after[what]
		t.Logf("%-38s %8d %8.0f B %8s %8s %8s %7.1fs", what, b.Objects, slope(a, b), mib(b.Heap), mib(b.Resident), mib(b.Peak), b.Live.Seconds())
	}
	of := after[holdCenter]
	if got := slope(before[holdCenter], of); got > maxPerObject {
		t.Errorf("the center needs %.0f bytes of heap per object, want at most %d", got, maxPerObject)
	}
	if of.Peak > maxResident {
		t.Errorf("the center needed %s for %d objects, want at most %s", mib(of.Peak), of.Objects, mib(maxResident))
	}
	if os.Getenv("HOLDFAST_LONG") != "" {
		collectors(t, plane.Config, applications)
	}
	bystanders(t, plane.Config, c, applications)
}

// recommended are the settings that the container of the center should have: with them garbage is
// at most half of what is held, and a first list of everything does not leave it large.
var recommended = []string{"GOGC=50", "GOMEMLIMIT=450MiB"}

// holders are those that are compared. A short run is about the center alone.
func holders() []string {
	if os.Getenv("HOLDFAST_LONG") == "" {
		return []string{holdCenter}
	}
	return []string{holdCenter, holdWhole, holdTrimmed}
}

// measure lets each hold what there is, one after the other.
func measure(t *testing.T, config *rest.Config, c *crowd, applications int, out map[string]held) {
	t.Helper()
	for _, what := range holders() {
		t.Run(fmt.Sprintf("%s/%d", what, applications), func(t *testing.T) {
			var settings []string
			if what == holdCenter {
				settings = recommended
			}
			h := hold(t, config, what, settings...)
			out[what] = h.settled(func(now held) bool {
				return now.Objects >= int(c.made.Load()) && (what != holdCenter || now.Applications == applications)
			})
			if what == holdCenter && *profiles != "" {
				h.ask("profile " + filepath.Join(*profiles, fmt.Sprintf("%d.pprof", applications)))
			}
		})
	}
}

// slope is the heap that one more object needs.
func slope(a, b held) float64 {
	return (float64(b.Heap) - float64(a.Heap)) / float64(b.Objects-a.Objects)
}

func mib(bytes uint64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// collectors shows what settings of the garbage collector make of it.
func collectors(t *testing.T, config *rest.Config, applications int) {
	t.Helper()
	t.Logf("%-38s %8s %8s %8s", "settings", "RSS", "peak", "live in")
	for _, env := range [][]string{{"GOGC=100"}, {"GOGC=50"}, {"GOGC=100", "GOMEMLIMIT=450MiB"}} {
		t.Run(fmt.Sprint(env), func(t *testing.T) {
			h := hold(t, config, holdCenter, env...)
			got := h.settled(func(now held) bool { return now.Applications == applications })
			t.Logf("%-38s %8s %8s %7.1fs", fmt.Sprint(env), mib(got.Resident), mib(got.Peak), got.Live.Seconds())
		})
	}
}

// bystanders are ConfigMaps that are nobody's: where there is no application none is held, and where
// there is one, little more than their names.
func bystanders(t *testing.T, config *rest.Config, c *crowd, applications int) {
	t.Helper()
	spaces := max(1, *strays/1_000)
	space := func(i int) string { return fmt.Sprintf("other-%d", i%spaces) }
	each(t, 0, spaces, func(ctx context.Context, i int) error { return c.namespace(ctx, space(i)) })
	each(t, 0, *strays, func(ctx context.Context, i int) error { return c.bystander(ctx, space(i), i) })
	h := hold(t, config, holdCenter, recommended...)
	without := h.settled(func(now held) bool { return now.Applications == applications })
	if own := without.Maps; own >= applications+*strays/100 {
		t.Errorf("%d ConfigMaps are held, of which %d applications have one each, and the others are in namespaces without any", own, applications)
	}
	each(t, 0, spaces, func(ctx context.Context, i int) error { return c.Create(ctx, small(space(i))) })
	with := h.settled(func(now held) bool {
		return now.Applications == applications+spaces && now.Maps >= without.Maps+*strays
	})
	perMap := (float64(with.Heap) - float64(without.Heap)) / float64(*strays)
	t.Logf("%d ConfigMaps of nobody: %d held where there is no application, %.0f bytes each where there is one, with %d informers more; RSS %s, peak %s",
		*strays, without.Maps-applications, perMap, spaces, mib(with.Resident), mib(with.Peak))
	if perMap > maxPerMap {
		t.Errorf("a ConfigMap of nobody needs %.0f bytes, want at most %d", perMap, maxPerMap)
	}
	if *profiles != "" {
		h.ask("profile " + filepath.Join(*profiles, "configmaps.pprof"))
	}
	each(t, 0, spaces, func(ctx context.Context, i int) error { return client.IgnoreNotFound(c.Delete(ctx, small(space(i)))) })
	h.settled(func(now held) bool { return now.Applications == applications && now.Maps == without.Maps })
}
