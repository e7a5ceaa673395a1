package explain

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDeletedWorkloadHasNoCause(t *testing.T) {
	pausedDeployment := newTestDeployment(func(d *appsv1.Deployment) { d.Spec.Paused, d.DeletionTimestamp = true, new(ago(time.Second)) })
	emptySet := newTestStatefulSet(func(s *appsv1.StatefulSet) {
		s.Spec.Replicas, s.DeletionTimestamp = new(int32(0)), new(ago(time.Second))
	})
	checkDiagnoses(t, map[string]snapshotCase{
		"Deployment":  {Snapshot{Workload: pausedDeployment}, Diagnosis{}},
		"StatefulSet": {Snapshot{Workload: emptySet}, Diagnosis{}},
	})
}

func TestPausedDeployment(t *testing.T) {
	paused := func(since time.Duration) Diagnosis {
		return oneCause(Cause{
			Code: Paused, Severity: Notice, Object: ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "uid-web"},
			Path: "spec.paused", Value: "true", Since: testNow.Add(-since),
			Message: "Deployment web is paused, so changes are not rolled out to its pods",
			Fix:     "Resume it: kubectl rollout resume -n shop deployment/web",
		})
	}
	deployment := func(conditions ...appsv1.DeploymentCondition) Snapshot {
		return Snapshot{Workload: newTestDeployment(func(d *appsv1.Deployment) { d.Spec.Paused, d.Status.Conditions = true, conditions })}
	}
	progressing := appsv1.DeploymentCondition{
		Type: "Progressing", Status: "Unknown", Reason: "DeploymentPaused", LastTransitionTime: ago(time.Minute),
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"since the transition of its condition": {deployment(progressing), paused(time.Minute)},
		"since it was created":                  {deployment(), paused(podAge)},
	})
}

func TestFailedCronJobRunIsNoCause(t *testing.T) {
	crash := pod("report-1", waiting("CrashLoopBackOff", ""), restarted(3, termination(1, "Error", "", time.Minute)))
	checkDiagnoses(t, map[string]snapshotCase{
		"run of a CronJob": {Snapshot{Workload: &batchv1.CronJob{}, Pods: []*corev1.Pod{crash}}, Diagnosis{}},
	})
}

func TestUnobservedSpecHasGracePeriod(t *testing.T) {
	changed := func(before time.Duration) Snapshot {
		return Snapshot{Workload: newTestDeployment(func(d *appsv1.Deployment) {
			d.Generation, d.Status.ObservedGeneration = 2, 1
			d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(ago(before))}}
		})}
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"changed just now": {changed(5 * time.Second), Diagnosis{RecheckAt: testNow.Add(10 * time.Second)}},
		"changed before": {changed(15 * time.Second), oneCause(Cause{
			Code: SpecNotObserved, Object: ObjectRef{Kind: "Deployment", Namespace: "shop", Name: "web", UID: "uid-web"},
			Path: "status.observedGeneration", Value: "1", Since: testNow.Add(-15 * time.Second),
			Message: "The controller of Deployment web has not observed its latest change",
			Fix:     "Check the logs of kube-controller-manager, and check that the API server is healthy: kubectl get --raw /livez?verbose",
		})},
	})
}

// The pods have no readiness probe, so their status does not explain why they are not ready.
func TestStatefulSetCreatesPodsInOrder(t *testing.T) {
	setRef := ObjectRef{Kind: "StatefulSet", Namespace: "shop", Name: "db", UID: "uid-db"}
	ask := []ObjectRef{setRef}
	blocked := Cause{
		Code: OrdinalBlocked, Object: testPodRef("db-2"), Path: `status.conditions[?(@.type=="Ready")]`, Since: testNow.Add(-unreadyFor),
		Message:      "Pod db-2 must become ready before StatefulSet db creates the next one",
		Fix:          "Check why the pod is not ready: kubectl describe pod -n shop db-2",
		AffectedPods: 1, Evidence: []string{"1 of 2 pods"},
	}
	parallel := func(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }
	set := func(s *appsv1.StatefulSet, pods ...*corev1.Pod) Snapshot { return Snapshot{Workload: s, Pods: pods} }
	unready := func(name string, before time.Duration) *corev1.Pod {
		return pod(name, running(before), created(before))
	}
	isUp := func(name string, before time.Duration) *corev1.Pod {
		return pod(name, running(before), created(before), ready)
	}
	checkDiagnoses(t, map[string]snapshotCase{
		"new StatefulSet without pods": {
			set(newTestStatefulSet(func(s *appsv1.StatefulSet) { s.CreationTimestamp = ago(5 * time.Second) })),
			Diagnosis{RecheckAt: testNow.Add(10 * time.Second)},
		},
		"newest pod just became ready": {
			set(newTestStatefulSet(), isUp("db-0", podAge), isUp("db-1", 5*time.Second)),
			Diagnosis{RecheckAt: testNow.Add(10 * time.Second)},
		},
		"lowest ordinal blocks, sorted by number": {
			set(newTestStatefulSet(), unready("db-10", podAge), unready("db-2", podAge)),
			Diagnosis{Causes: []Cause{blocked}, EventsNeeded: ask},
		},
		"a ready pod does not block": {
			set(newTestStatefulSet(), isUp("db-1", podAge), unready("db-2", podAge)),
			Diagnosis{Causes: []Cause{blocked}, EventsNeeded: ask},
		},
		"a terminating pod does not block by its readiness": {
			set(newTestStatefulSet(), pod("db-2", running(podAge), created(podAge), func(p *corev1.Pod) { p.DeletionTimestamp = new(ago(time.Second)) })),
			Diagnosis{EventsNeeded: ask, RecheckAt: testNow.Add(29 * time.Second)}, // when the pod counts as stuck
		},
		"new pod has a grace period of one minute": {
			set(newTestStatefulSet(), isUp("db-0", podAge), unready("db-1", 50*time.Second)),
			Diagnosis{RecheckAt: testNow.Add(10 * time.Second), EventsNeeded: ask},
		},
		"parallel pods do not block": {
			set(newTestStatefulSet(parallel), isUp("db-1", podAge), unready("db-2", podAge)), Diagnosis{EventsNeeded: ask},
		},
	})
}
