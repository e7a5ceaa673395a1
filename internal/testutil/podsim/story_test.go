package podsim_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// One control plane and one simulator for all stories; each has its own namespace.
func TestStories(t *testing.T) {
	s := newHarness(t, podsim.WithTerminationDelay(200*time.Millisecond))
	for name, story := range map[string]func(*harness){
		"rolling update, scale down, delete": rollingUpdate,
		"jobs":                               jobsFinish,
		"heal":                               podsRecover,
		"unknown behavior":                   unknownBehavior,
		"held by a finalizer":                heldByFinalizer,
		"crash of the API server":            apiServerCrash,
	} {
		t.Run(name, func(t *testing.T) {
			sub := *s
			sub.T, sub.ns = t, testutil.Namespace(t, s.plane.Config)
			story(&sub)
		})
	}
}

func rollingUpdate(s *harness) {
	s.createDeployment(newDeployment("web", 3))
	s.waitFor("three ready pods", func(state watcher.State) bool { return s.hasReadyPods(state, "web", 3) })
	old := podUIDs(s.podsOf(s.w.State(), "web"))

	s.patchDeployment("web", `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.com/shop/app:2.0"}]}}}}`)
	s.waitFor("three ready pods of the new version, and no other", func(state watcher.State) bool {
		return s.hasReadyPods(state, "web", 3) && podUIDs(s.podsOf(state, "web")).Intersection(old).Len() == 0
	})
	s.patchDeployment("web", `{"spec":{"replicas":1}}`)
	s.waitFor("one pod", func(state watcher.State) bool {
		return s.deployment(state, "web").Status.Replicas == 1 && len(s.podsOf(state, "web")) == 1
	})
	s.check(s.client.AppsV1().Deployments(s.ns).Delete(s.Context(), "web", metav1.DeleteOptions{}))
	s.waitFor("no pod", func(state watcher.State) bool { return len(s.podsOf(state, "web")) == 0 })

	// A deleted pod must have a final status.
	for _, e := range s.w.Events() {
		if e.Resource == pods && e.Object.GetNamespace() == s.ns && e.Type == watch.Deleted {
			pod := &corev1.Pod{}
			convert(s.T, e.Object, pod)
			if pod.Status.Phase != corev1.PodSucceeded {
				s.Errorf("pod %s was deleted in phase %s, want Succeeded", pod.Name, pod.Status.Phase)
			}
		}
	}
}

func jobsFinish(s *harness) {
	s.createJob("good", "")
	s.createJob("bad", "Failed")
	s.waitFor("one Job to complete and one to fail", func(state watcher.State) bool {
		return s.jobResult(state, "good") == "Complete" && s.jobResult(state, "bad") == "Failed"
	})
}

// podsRecover makes running pods fail and recover without being replaced.
func podsRecover(s *harness) {
	s.createDeployment(newDeployment("web", 2))
	s.waitFor("ready pods", func(state watcher.State) bool { return s.hasReadyPods(state, "web", 2) })
	before := podUIDs(s.podsOf(s.w.State(), "web"))
	crash := podsim.CrashLoop(1).WithRestarts(2, 50*time.Millisecond)
	for _, b := range []podsim.Behavior{podsim.NeverReady(), crash, podsim.ConfigMissing("db")} {
		s.setBehaviors(map[string]podsim.Behavior{"web": b})
		s.waitFor(fmt.Sprintf("no ready pod with %s", b), func(state watcher.State) bool {
			return s.deployment(state, "web").Status.UnavailableReplicas == 2
		})
		s.setBehaviors(nil)
		s.waitFor(fmt.Sprintf("ready pods after %s", b), func(state watcher.State) bool { return s.hasReadyPods(state, "web", 2) })
	}
	list := s.podsOf(s.w.State(), "web")
	if got := podUIDs(list); !got.Equal(before) {
		s.Errorf("pods were replaced: %v, then %v", before, got)
	}
	for _, pod := range list {
		c := pod.Status.ContainerStatuses[0]
		if !c.Ready || c.State.Running == nil || pod.Status.Phase != corev1.PodRunning || c.RestartCount == 0 {
			s.Errorf("pod %s is not consistently ready again: %+v", pod.Name, c)
		}
	}

	// An unschedulable pod is scheduled as soon as it fits.
	s.setBehaviors(map[string]podsim.Behavior{"late": podsim.Unschedulable()})
	s.createPod("late", "")
	s.waitFor("the late pod to wait", func(state watcher.State) bool { return firstProblem(s.podsOf(state, "late")) == "Unschedulable" })
	s.setBehaviors(nil)
	s.waitFor("the late pod", func(state watcher.State) bool { return isReady(s.onlyPod(state, "late")) })
}

func unknownBehavior(s *harness) {
	s.createPod("typo", "Redy")
	s.waitFor("the pod to report the error", func(state watcher.State) bool {
		return firstProblem(s.podsOf(state, "typo")) == "app: CreateContainerConfigError"
	})
}

// heldByFinalizer checks that the simulator terminates the pod and leaves the finalizer to its owner.
func heldByFinalizer(s *harness) {
	pod := s.createPod("held", "Ready", "example.com/hold")
	s.waitFor("the pod to run", func(state watcher.State) bool { return isReady(s.onlyPod(state, "held")) })
	s.check(s.client.CoreV1().Pods(s.ns).Delete(s.Context(), pod, metav1.DeleteOptions{}))
	s.waitFor("the pod to terminate", func(state watcher.State) bool {
		held := s.onlyPod(state, "held")
		return held.Status.Phase == corev1.PodSucceeded && *held.DeletionGracePeriodSeconds == 0
	})
	release := []byte(`{"metadata":{"finalizers":null}}`)
	_, err := s.client.CoreV1().Pods(s.ns).Patch(s.Context(), pod, types.MergePatchType, release, metav1.PatchOptions{})
	s.check(err)
	s.waitFor("the pod to be deleted", func(state watcher.State) bool { return len(s.podsOf(state, "held")) == 0 })
}

// apiServerCrash checks that the simulation continues after a restart of the API server.
func apiServerCrash(s *harness) {
	s.createDeployment(newDeployment("web", 3))
	s.waitFor("ready pods", func(state watcher.State) bool { return s.hasReadyPods(state, "web", 3) })
	s.check(s.plane.APIServer.Kill())
	s.check(s.plane.APIServer.Start())
	s.check(s.plane.WaitReady(s.Context()))
	restartedAt := time.Now()
	s.createPod("late", "Ready")
	s.waitFor("a pod after the crash", func(state watcher.State) bool { return isReady(s.onlyPod(state, "late")) })
	s.Logf("first pod ready %.1f s after the API server was", time.Since(restartedAt).Seconds())
	for _, pod := range s.podsOf(s.w.State(), "web") {
		if !isReady(pod) || pod.Status.ContainerStatuses[0].RestartCount != 0 {
			s.Errorf("pod %s failed because of the crash: %s", pod.Name, firstProblem([]*corev1.Pod{pod}))
		}
	}
}
