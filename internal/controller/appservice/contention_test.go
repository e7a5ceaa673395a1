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

// longRun selects full test durations: HOLDFAST_LONG=1 go test ./internal/controller/appservice.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// quietPeriod is the time for which a stable state is observed, and contentionDuration the time for which another client
// changes fields of the operator.
var (
	quietPeriod        = sampleOrFull(6*time.Second, 21*time.Second)
	contentionDuration = sampleOrFull(8*time.Second, time.Minute)
)

// sampleOrFull returns the short or the full duration.
func sampleOrFull(sample, full time.Duration) time.Duration {
	if longRun {
		return full
	}
	return sample
}

// contendingPatches are patches of the Deployment, sent ten times a second.
var contendingPatches = map[string]func(i int) string{
	"replicas": func(i int) string { return fmt.Sprintf(`{"spec":{"replicas":%d}}`, 3+i%2) },
	"a label": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"theirs-%d"}}}`, i)
	},
	"the label that the cache selects on": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"labels":{"app.kubernetes.io/managed-by":"theirs-%d"}}}`, i)
	},
	"the hash": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"apps.holdfast.dev/applied-hash":"theirs-%d"}}}`, i)
	},
	"a probe, with take-ownership": func(i int) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"apps.holdfast.dev/take-ownership":"true"}},"spec":{"template":{"spec":{"containers":[{"name":"app","readinessProbe":{"tcpSocket":null,"httpGet":{"port":80,"path":"/%d"}}}]}}}}`, i)
	},
}

// testDriftContention has another client change a field of the operator ten times a second.
func (s *suite) testDriftContention(t *testing.T) {
	worlds := map[string]*world{}
	for name := range contendingPatches {
		if !longRun && name != "replicas" && name != "a probe, with take-ownership" {
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
	t.Logf("operator memory: %d MiB before, %d MiB after", before>>20, after>>20)
	if after-before > maxMemoryGrowth {
		t.Errorf("memory grows during contention: %d MiB before, %d MiB after", before>>20, after>>20)
	}
}

// maxMemoryGrowth is the tolerance for the race detector and the garbage collector; a minute of contention causes about
// 3,000 reconciliations.
const maxMemoryGrowth = 24 << 20

// operatorMemory returns the resident memory of the operator.
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
				Equal(fmt.Sprintf("False/Progressing: Another client keeps changing Deployment %[1]s/web; drift is corrected at most once per second. "+
					"To identify the client: kubectl get deployment web -n %[1]s --show-managed-fields -o yaml", w.NS)),
				Equal("False/Progressing: Deployment web keeps changing while it is being updated; retrying"),
			))
		}
	})
	w.Expect(acceptedChildWrites(calls)).To(BeNumerically("<=", 5+int(duration.Seconds())+1), "%s", calls.Count())
	w.Expect(len(calls.Of("appservices.apps.holdfast.dev").Writes())).To(BeNumerically("<=", 12), "the status must not change once the contention is reported:\n%s", calls.Count())
	w.waitReady()
	w.WaitIdle(w.name)
	events := w.events()
	if !slices.Contains(events, "DriftContention") {
		w.Logf("the machine was too busy for contention:\n%s", calls.Count())
		events = append(events, "DriftContention")
	}
	events = slices.DeleteFunc(events, func(reason string) bool { return reason == "FieldsTakenOver" })
	reports := 0
	events = slices.DeleteFunc(events, func(reason string) bool {
		if reason == "DriftCorrected" {
			reports++
		}
		return reason == "DriftCorrected"
	})
	w.Expect(events).To(ConsistOf("ComponentCreated", "ComponentReady", "DriftContention"))
	w.Expect(reports).To(And(BeNumerically(">=", 1), BeNumerically("<=", 2+int(duration.Minutes()))), "one report a minute")
	w.Expect(w.app().Status.Drift).To(HaveLen(1), "continuous corrections are one entry")
	w.expectSteadyState()
}
