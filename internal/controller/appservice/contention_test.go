package appservice_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longRun asks for everything: HOLDFAST_LONG=1 go test ./internal/controller/appservice. The
// usual run takes a sample of what takes its time.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// quietPeriod is how long a state that should stay is watched, and contentionDuration how long others keep
// changing what we hold.
var quietPeriod, contentionDuration = 6 * time.Second, 8 * time.Second

func init() {
	if longRun {
		quietPeriod, contentionDuration = 21*time.Second, time.Minute
	}
}

// contendingPatches are patches of the Deployment, made anew ten times a second.
var contendingPatches = map[string]func(i int) string{
	"replicas": func(i int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i%2) },
	"a label": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"theirs-%d"}}}`, i)
	},
	"the label that our cache selects on": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"theirs-%d"}}}`, i)
	},
	"the hash": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"apps.holdfast.dev/applied-hash":"theirs-%d"}}}`, i)
	},
	"a probe": func(i int) string {
		return fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","readinessProbe":{"tcpSocket":null,"httpGet":{"port":80,"path":"/%d"}}}]}}}}`, i)
	},
}

// testDriftContention lets a hostile client change a field of ours ten times a second.
func (s *suite) testDriftContention(t *testing.T) {
	worlds := map[string]*world{}
	for name := range contendingPatches {
		if !longRun && name != "replicas" && name != "a probe" {
			continue
		}
		worlds[name] = newWorld(t, s)
		worlds[name].create(basicSpec)
	}
	for _, w := range worlds {
		w.waitReady()
		w.WaitIdle(w.name)
	}
	before := s.operatorMemory(t)
	t.Run("group", func(t *testing.T) {
		for name, w := range worlds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w.forTest(t).contend(contentionDuration, contendingPatches[name])
			})
		}
	})
	after := s.operatorMemory(t)
	t.Logf("the operator used %d MiB before and %d MiB after", before>>20, after>>20)
	if after-before > maxMemoryGrowth {
		t.Errorf("memory grows with a fight: %d MiB before, %d MiB after", before>>20, after>>20)
	}
}

// maxMemoryGrowth is what the race detector and the collector may leave lying about; a fight
// of a minute makes some 3,000 passes.
const maxMemoryGrowth = 24 << 20

// operatorMemory is the resident memory of the operator.
func (s *suite) operatorMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Operator.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

func (w *world) contend(duration time.Duration, patch func(i int) string) {
	calls := w.OperatorRequests(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for i := range int(duration / (100 * time.Millisecond)) {
			d := &appsv1.Deployment{ObjectMeta: w.objectMeta()}
			w.Expect(w.Patch(w.Context(), d, client.RawPatch(types.StrategicMergePatchType, []byte(patch(i))))).To(Succeed())
			<-tick.C
		}
		if slices.Contains(w.events(), "DriftContention") {
			w.Expect(w.condition("Ready")()).To(Or(
				Equal(fmt.Sprintf("False/Progressing: Somebody keeps changing Deployment %[1]s/web; it is repaired at most once a second. "+
					"Find out who: kubectl get deployment web -n %[1]s --show-managed-fields -o yaml", w.NS)),
				Equal("False/Progressing: Deployment web changes faster than it can be written; it is tried again and again"),
			))
		}
	})
	w.Expect(acceptedChildWrites(calls)).To(BeNumerically("<=", 5+int(duration.Seconds())+1), "%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev").Writes())).To(BeNumerically("<=", 12), "the status flaps until the fight is known, and no longer:\n%s", calls.Count())
	w.waitReady()
	w.WaitIdle(w.name)
	events := w.events()
	if !slices.Contains(events, "DriftContention") {
		w.Logf("the machine was too busy for a fight:\n%s", calls.Count())
		events = append(events, "DriftContention")
	}
	w.Expect(events).To(ConsistOf("ComponentCreated", "ComponentReady", "DriftContention"))
	w.expectSteadyState()
}
