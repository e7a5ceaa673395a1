package report

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// What is read of each log, and of how many pods.
const (
	maxLogLines = 1000
	maxLogBytes = 1 << 20
	maxLogPods  = 50
)

// collectOperator is the operator: its Deployment, its pods and what it logged. It never logs
// secrets, so its log is always there.
func (c *collector) collectOperator(ctx context.Context) error {
	var d appsv1.Deployment
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.operatorNamespace, Name: cli.OperatorName}, &d); err != nil {
		return err
	}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := c.bundle.addValue("operator/deployment.yaml", "Deployment of the operator", &d); err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.operatorNamespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	var errs []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		if err := c.bundle.addValue("operator/"+pod.Name+".yaml", "Pod of the operator", pod); err != nil {
			return err
		}
		errs = append(errs, c.addPodLogs(ctx, pod, "operator"))
	}
	return errors.Join(errs...)
}

// collectAppLogs is what the programs of the application wrote.
func (c *collector) collectAppLogs(ctx context.Context) error {
	pods := c.pods()
	var errs []error
	if len(pods) > maxLogPods {
		errs = append(errs, fmt.Errorf("those of %d of %d pods were not read; kubectl holdfast logs shows them", len(pods)-maxLogPods, len(pods)))
		pods = pods[:maxLogPods]
	}
	for _, pod := range pods {
		errs = append(errs, c.addPodLogs(ctx, pod, "logs"))
	}
	return errors.Join(errs...)
}

// addPodLogs adds the last lines of every container of a pod, and of those before a restart. One
// that has not begun has none.
func (c *collector) addPodLogs(ctx context.Context, pod *corev1.Pod, folder string) error {
	var errs []error
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.State.Running != nil || s.State.Terminated != nil {
				errs = append(errs, c.addContainerLog(ctx, pod, s.Name, folder, false))
			}
			if s.LastTerminationState.Terminated != nil {
				errs = append(errs, c.addContainerLog(ctx, pod, s.Name, folder, true))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *collector) addContainerLog(ctx context.Context, pod *corev1.Pod, container, folder string, previous bool) error {
	o := &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true, TailLines: new(int64(maxLogLines)), LimitBytes: new(int64(maxLogBytes))}
	if c.since > 0 {
		o.SinceSeconds = new(max(int64(c.since.Seconds()), 1))
	}
	name, description := fmt.Sprintf("%s/%s.%s.log", folder, pod.Name, container), "its last lines"
	if previous {
		name, description = fmt.Sprintf("%s/%s.%s.previous.log", folder, pod.Name, container), "its last lines before the restart"
	}
	content, err := c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("log of %s/%s, container %s: %w", pod.Namespace, pod.Name, container, err)
	}
	c.bundle.addText(name, description, string(content))
	return nil
}
