package appservice_test

import (
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"denied":  podsim.ImageDenied(),
	"crash":   podsim.CrashLoop(3).After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond), // never at rest
	"oom":     podsim.OOMKilled().After(200*time.Millisecond).WithRestarts(1000, 700*time.Millisecond),
	"config":  podsim.ConfigMissing("settings"),
	"big":     podsim.Unschedulable(),
	"never":   podsim.NeverReady(),
	"slow":    podsim.Slow(time.Second),
}

// brokenImages are the updates that do not work, by the tag of the image: which cause is named,
// and what is said; %s is the pod, and %[2]s the namespace.
var brokenImages = map[string]struct{ code, says string }{
	"missing": {"ImageNotFound", `Image "shop/web:missing" does not exist in its registry (container app of pod %[1]s)`},
	"denied":  {"ImageAuth", `The registry refuses to give out image "shop/web:denied" (container app of pod %[1]s): no pull Secret is set`},
	"crash":   {"CrashLoop", "Container app of pod %[1]s crashes: it exited with code 3"},
	"oom":     {"OOMKilled", "Container app of pod %[1]s was killed because it used more than its memory limit of 64Mi"},
	"config":  {"MissingSecret", `Container app of pod %[1]s needs Secret "settings", which does not exist in namespace %[2]s`},
	"big":     {"InsufficientCPU", "No node has enough CPU for pod %[1]s: it asks for 10m CPU"},
	"never":   {"ReadinessFailing", "Container app of pod %[1]s runs but does not pass its readiness probe (TCP port 8080)"},
}

func init() {
	for tag, tc := range brokenImages {
		stories["cause: "+tc.code] = func(w *world) { w.updateToBrokenImage(tag, tc.code, tc.says) }
	}
}

// updateToBrokenImage updates to an image that does not work: the status names the cause and the pod,
// says it once, and the old pods keep serving. The right image heals it.
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
	calls := w.OperatorRequests(func() { time.Sleep(quietPeriod) }) // restarts go on meanwhile
	w.Expect(len(calls.Writes())).To(BeNumerically("<=", 2), "%s", calls.Count())
	w.Expect(w.app().Status.Causes).To(Equal([]appsapi.Cause{cause}), "the same cause says the same, since the same time")
	w.Expect(w.podNames("shop/web:1")).To(ConsistOf(oldPods), "the old pods serve until the new ones do")
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "ComponentReady", "ComponentUpdated", "ComponentDegraded"))

	w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = "shop/web:2" })
	w.waitReady()
	w.Expect(w.app().Status.Causes).To(BeEmpty())
	w.expectSteadyState()
}

// podNames are the names of the pods that run an image.
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
