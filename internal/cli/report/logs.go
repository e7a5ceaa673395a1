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

// Limits per container log, and for the number of pods.
const (
	maxLogLines = 1000
	maxLogBytes = 1 << 20
	maxLogPods  = 50
)

// collectOperator adds the Deployment, the pods and the logs of the operator. The logs are always
// included, because the operator never logs secrets.
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

// collectAppLogs adds the logs of the application.
func (c *collector) collectAppLogs(ctx context.Context) error {
	pods := c.pods()
	var errs []error
	if len(pods) > maxLogPods {
		errs = append(errs, fmt.Errorf("logs of %d of %d pods were not read because of the limit; use kubectl holdfast logs",
			len(pods)-maxLogPods, len(pods)))
		pods = pods[:maxLogPods]
	}
	for _, pod := range pods {
		errs = append(errs, c.addPodLogs(ctx, pod, "logs"))
	}
	return errors.Join(errs...)
}

// addPodLogs adds the last log lines of all containers of a pod, including previous instances.
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
	name, description := fmt.Sprintf("%s/%s.%s.log", folder, pod.Name, container), "last log lines"
	if previous {
		name, description = fmt.Sprintf("%s/%s.%s.previous.log", folder, pod.Name, container), "last log lines before the restart"
	}
	content, err := c.kube.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, o).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("get log of Pod %s/%s, container %s: %w", pod.Namespace, pod.Name, container, err)
	}
	c.bundle.addText(name, description, string(content))
	return nil
}
