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
	logLines = 1000
	logBytes = 1 << 20
	logPods  = 50
)

// operatorItself is the operator: its Deployment, its pods and what it logged. It never logs
// secrets, so its log is always there.
func (c *collector) operatorItself(ctx context.Context) error {
	var d appsv1.Deployment
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.operator, Name: cli.OperatorName}, &d); err != nil {
		return err
	}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := c.bundle.value("operator/deployment.yaml", "Deployment of the operator", &d); err != nil {
		return err
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.operator), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return err
	}
	var failed []error
	for i := range pods.Items {
		pod := &pods.Items[i]
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		if err := c.bundle.value("operator/"+pod.Name+".yaml", "Pod of the operator", pod); err != nil {
			return err
		}
		failed = append(failed, c.logsOf(ctx, pod, "operator"))
	}
	return errors.Join(failed...)
}

// appLogs is what the programs of the application wrote.
func (c *collector) appLogs(ctx context.Context) error {
	pods := c.pods()
	var failed []error
	if len(pods) > logPods {
		failed = append(failed, fmt.Errorf("those of %d of %d pods were not read; kubectl holdfast logs shows them", len(pods)-logPods, len(pods)))
		pods = pods[:logPods]
	}
	for _, pod := range pods {
		failed = append(failed, c.logsOf(ctx, pod, "logs"))
	}
	return errors.Join(failed...)
}

// logsOf adds the last lines of every container of a pod, and of those before a restart. One
// that has not begun has none.
func (c *collector) logsOf(ctx context.Context, pod *corev1.Pod, folder string) error {
	var failed []error
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			s := &statuses[i]
			if s.State.Running != nil || s.State.Terminated != nil {
				failed = append(failed, c.log(ctx, pod, s.Name, folder, false))
			}
			if s.LastTerminationState.Terminated != nil {
				failed = append(failed, c.log(ctx, pod, s.Name, folder, true))
			}
		}
	}
	return errors.Join(failed...)
}

func (c *collector) log(ctx context.Context, pod *corev1.Pod, container, folder string, previous bool) error {
	o := &corev1.PodLogOptions{Container: container, Previous: previous, Timestamps: true, TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes))}
	if c.since > 0 {
		o.SinceSeconds = new(max(int64(c.since.Seconds()), 1))
	}
	name, what := fmt.Sprintf("%s/%s.%s.log", folder, pod.Name, container), "its last lines"
	if previous {
		name, what = fmt.Sprintf("%s/%s.%s.previous.log", folder, pod.Name, container), "its last lines before the restart"
	}
	content, err := c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("log of %s/%s, container %s: %w", pod.Namespace, pod.Name, container, err)
	}
	c.bundle.text(name, what, string(content))
	return nil
}
