package appservice_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// behaviors maps image tags to pod behaviors.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"denied":  podsim.ImageDenied(),
	"crash":   podsim.CrashLoop(3).After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond), // keeps crashing
	"oom":     podsim.OOMKilled().After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond),
	"config":  podsim.ConfigMissing("settings"),
	"big":     podsim.Unschedulable(),
	"never":   podsim.NeverReady(),
	"slow":    podsim.Slow(time.Second),
}

// brokenImages are failing updates by image tag, with the expected cause; %[1]s is the pod, %[2]s the namespace.
var brokenImages = map[string]struct{ code, says string }{
	"missing": {"ImageNotFound", `Image "shop/web:missing" does not exist in its registry (container app of Pod %[1]s)`},
	"denied":  {"ImageAuth", `The registry denies access to image "shop/web:denied" (container app of Pod %[1]s): no image pull Secret is set`},
	"crash":   {"CrashLoop", "Container app of Pod %[1]s crashes: it exited with code 3"},
	"oom":     {"OOMKilled", "Container app of Pod %[1]s was killed because it used more than its memory limit of 64Mi"},
	"config":  {"MissingSecret", `Container app of Pod %[1]s needs Secret "settings", which does not exist in namespace %[2]s`},
	"big":     {"InsufficientCPU", "No node has enough CPU for Pod %[1]s: it requests 10m CPU"},
	"never":   {"ReadinessFailing", "Container app of Pod %[1]s runs, but nothing listens on TCP port 8080, which its readiness probe connects to"},
}

// TestBrokenImageIsExplained updates to a broken image: the status reports the cause and the pod once, and the old pods
// keep serving. A working image resolves it.
func TestBrokenImageIsExplained(t *testing.T) {
	t.Parallel()
	for tag, tc := range brokenImages {
		t.Run(tc.code, func(t *testing.T) { newStory(t).updateToBrokenImage(tag, tc.code, tc.says) })
	}
}

func (w *world) updateToBrokenImage(tag, code, message string) {
	w.create(basicSpec + "\nresources: {requests: {cpu: 10m}, limits: {memory: 64Mi}}")
	w.waitReady()
	oldPods := w.podNames("shop/web:1")
	w.Expect(oldPods).To(HaveLen(2))
	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:" + tag })
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))

	w.Expect(w.app().Status.Causes).To(HaveLen(1))
	cause := w.app().Status.Causes[0]
	w.Expect(cause.Code).To(Equal(code))
	w.Expect(cause.Object.Kind).To(Equal("Pod"))
	w.Expect(w.podNames("shop/web:" + tag)).To(ContainElement(cause.Object.Name))
	w.Expect(cause.Message).To(Equal(fmt.Sprintf(message+"%.0[2]s", cause.Object.Name, w.NS)))
	w.Expect(w.condition("Ready")()).To(Equal("False/ComponentDegraded: " + cause.Message))
	w.Expect(cause.Since.Time).To(BeTemporally("~", time.Now(), time.Minute))

	w.WaitIdle(w.name)
	calls := w.OperatorRequestsWithin(quietPeriod) // containers keep restarting
	w.Expect(len(calls.Writes())).To(BeNumerically("<=", 2), "%s", calls.Count())
	w.Expect(w.app().Status.Causes).To(Equal([]appsapi.Cause{cause}), "the cause and its time do not change")
	w.Expect(w.podNames("shop/web:1")).To(ConsistOf(oldPods), "the old pods serve until the new ones are ready")
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady", "ComponentUpdated", "ComponentDegraded"))

	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.waitReady()
	w.Expect(w.app().Status.Causes).To(BeEmpty())
	w.expectSteadyState()
}

// podNames returns the names of the pods with an image.
func (w *world) podNames(image string) []string {
	w.Helper()
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS))).To(Succeed())
	var names []string
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && pod.Spec.Containers[0].Image == image {
			names = append(names, pod.Name)
		}
	}
	return names
}
