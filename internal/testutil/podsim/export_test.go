package podsim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Sync plays one pod as it is now, past queue and cache. The simulator has to be
// stopped: two workers must not play the same pod.
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
