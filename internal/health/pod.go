package health

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

func podHealth(p *corev1.Pod) Result {
	name := objectName("Pod", p)
	if p.DeletionTimestamp != nil {
		return progressing(name + " is being deleted")
	}
	switch p.Status.Phase {
	case corev1.PodFailed:
		return degraded(appsapi.ReasonComponentDegraded, name+" has failed")
	case corev1.PodSucceeded:
		return healthy(name + " has completed")
	case corev1.PodUnknown:
		// Checked before the conditions, which are outdated.
		return unknown(name + " is on an unreachable node")
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return healthy(name + " is ready")
		}
	}
	return progressing(name + " is not ready yet")
}

// longGracePeriod is the length of a grace period that a user may want to shorten: the default of Kubernetes.
const longGracePeriod = 30

// TerminatingMessage describes a terminating pod: since when and until when it may run, and how to end a long grace
// period.
func TerminatingMessage(p *corev1.Pod) string {
	message := fmt.Sprintf("Waiting for %s to terminate (deletion requested at %s, killed at %s)", objectName("Pod", p),
		DeletionRequested(p), p.DeletionTimestamp.UTC().Format(time.RFC3339))
	if HasLongGracePeriod(p) {
		message += fmt.Sprintf("; to kill it now: kubectl delete pod -n %s %s --grace-period=1", p.Namespace, p.Name)
	}
	return message
}

// HasLongGracePeriod reports whether a terminating pod may run for longer than usual.
func HasLongGracePeriod(p *corev1.Pod) bool {
	return p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds > longGracePeriod
}

// LastTerminating returns the terminating pod that may run for the longest time; nil if there is none.
func LastTerminating(pods []*corev1.Pod) *corev1.Pod {
	var last *corev1.Pod
	for _, p := range pods {
		switch {
		case p.DeletionTimestamp == nil:
		case last == nil, last.DeletionTimestamp.Before(p.DeletionTimestamp),
			last.DeletionTimestamp.Equal(p.DeletionTimestamp) && p.Name < last.Name:
			last = p
		}
	}
	return last
}

// DeletionRequested returns the time of a deletion request. The deletion timestamp is the end of the grace period.
func DeletionRequested(o metav1.Object) string {
	var grace int64
	if seconds := o.GetDeletionGracePeriodSeconds(); seconds != nil {
		grace = *seconds
	}
	return o.GetDeletionTimestamp().Add(-time.Duration(grace) * time.Second).UTC().Format(time.RFC3339)
}
