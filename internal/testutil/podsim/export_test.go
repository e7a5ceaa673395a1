package podsim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sync syncs one pod directly, without queue and cache. The simulator must be stopped, so that only one worker handles
// the pod.
func (s *Simulator) Sync(ctx context.Context, namespace, name string) error {
	pod, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := s.informer.GetStore().Update(pod); err != nil {
		return err
	}
	_, err = s.sync(ctx, namespace+"/"+name)
	return err
}
