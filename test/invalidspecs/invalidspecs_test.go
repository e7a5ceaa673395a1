// Package invalidspecs_test tests the reporting of user errors. Each invalid or unsatisfiable spec must be rejected at
// admission with a helpful message, or cause a condition that names the field or the object within seconds. There must
// be no hot retry loop, and the valid spec must recover the application.
//
// Safety rule: each case contains the expected message, so that changed messages are reviewed.
package invalidspecs_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// parallelism is the number of concurrent cases. They mostly wait.
const parallelism = "20"

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("misuse needs an API server: make test-api runs it")
		return
	}
	if err := flag.Set("test.parallel", parallelism); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// TestInvalidSpecsAreReported runs all cases that are rejected at admission, and one case per class of the others.
// HOLDFAST_LONG runs all of them.
func TestInvalidSpecsAreReported(t *testing.T) {
	started := time.Now()
	s := newHarness(t)
	var results rows
	t.Run("cases", func(t *testing.T) {
		t.Run("admission", func(t *testing.T) {
			t.Parallel()
			runRejected(t, s, &results)
		})
		for _, m := range selectedCases() {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				runAccepted(t, s, m, &results)
			})
		}
	})
	s.ExpectNoForbiddenRequests(t)
	took := time.Since(started)
	results.sortAndLog(t, took)
	if dir := os.Getenv("HOLDFAST_MISUSE_OUT"); dir != "" {
		results.writeReport(t, dir, took)
	}
}

// selectedCases returns the cases to run among those that pass admission: all with HOLDFAST_LONG,
// otherwise one of each class, which depends on the seed.
func selectedCases() []invalidSpec {
	byClass := map[string][]invalidSpec{}
	for _, m := range slices.SortedFunc(slices.Values(cases), func(a, b invalidSpec) int { return strings.Compare(a.name, b.name) }) {
		if !m.rejectedAtAdmission() {
			byClass[m.class] = append(byClass[m.class], m)
		}
	}
	var selected []invalidSpec
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		if os.Getenv("HOLDFAST_LONG") != "" {
			selected = append(selected, byClass[class]...)
			continue
		}
		selected = append(selected, byClass[class][testutil.Seed()%uint64(len(byClass[class]))])
	}
	return selected
}

// newHarness returns a harness with a real scheduler, because its messages for unschedulable pods are part of the
// test.
func newHarness(t *testing.T) *harness.Harness {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true, Scheduler: true})
	operator.Install(t, plane)
	if _, err := podsim.Start(t.Context(), plane.Config, podsim.WithoutScheduling(), podsim.WithBehavior(podBehavior)); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(plane.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	return &harness.Harness{Plane: plane, AuditLog: log, Operator: operator.Start(t, plane, operator.Options{})}
}

// behaviors simulates pods by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"missing":     podsim.ImageNotFound(),
	"denied":      podsim.ImageDenied(),
	"unreachable": podsim.RegistryUnreachable(),
	"crash":       podsim.CrashLoop(3).After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond),
	"oom":         podsim.OOMKilled().After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond),
	"never":       podsim.NeverReady(),
	"fail":        podsim.Failed(3),
}

// missingPrefix is the name prefix of missing objects and keys.
const missingPrefix = "no-such-"

// podBehavior simulates a kubelet, which checks the references of a pod first.
func podBehavior(pod *corev1.Pod) podsim.Behavior {
	for i := range pod.Spec.Volumes {
		if refersToMissing(&pod.Spec.Volumes[i]) {
			return podsim.Hang()
		}
	}
	for i := range pod.Spec.Containers {
		if message := unresolvedEnv(pod, &pod.Spec.Containers[i]); message != "" {
			return podsim.ConfigMissing("").WithMessage(message)
		}
	}
	return harness.BehaviorByTag(behaviors)(pod)
}

// refersToMissing reports whether a volume references a missing object.
func refersToMissing(v *corev1.Volume) bool {
	var items []corev1.KeyToPath
	var name string
	switch {
	case v.Secret != nil:
		name, items = v.Secret.SecretName, v.Secret.Items
	case v.ConfigMap != nil:
		name, items = v.ConfigMap.Name, v.ConfigMap.Items
	}
	return strings.HasPrefix(name, missingPrefix) ||
		slices.ContainsFunc(items, func(k corev1.KeyToPath) bool { return strings.HasPrefix(k.Key, missingPrefix) })
}

// unresolvedEnv returns the kubelet message for environment variables that cannot be resolved.
func unresolvedEnv(pod *corev1.Pod, c *corev1.Container) string {
	for _, e := range c.EnvFrom {
		if r := e.ConfigMapRef; r != nil && strings.HasPrefix(r.Name, missingPrefix) {
			return fmt.Sprintf("configmap %q not found", r.Name)
		}
		if r := e.SecretRef; r != nil && strings.HasPrefix(r.Name, missingPrefix) {
			return fmt.Sprintf("secret %q not found", r.Name)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		kind, name, key := "", "", ""
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			kind, name, key = "ConfigMap", r.Name, r.Key
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			kind, name, key = "Secret", r.Name, r.Key
		}
		if strings.HasPrefix(name, missingPrefix) {
			return fmt.Sprintf("%s %q not found", strings.ToLower(kind), name)
		}
		if strings.HasPrefix(key, missingPrefix) {
			return fmt.Sprintf("couldn't find key %s in %s %s/%s", key, kind, pod.Namespace, name)
		}
	}
	return ""
}
