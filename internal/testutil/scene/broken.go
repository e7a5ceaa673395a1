package scene

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// unready takes the readiness of all pods of a component, ten minutes ago.
func (s *Scene) unready(component string) []*corev1.Pod {
	c := s.Component(component)
	switch c.Workload.Kind {
	case desired.KindDeployment:
		st := &Get[*appsv1.Deployment](s, c.Workload.Name).Status
		st.ReadyReplicas, st.AvailableReplicas = 0, 0
	case desired.KindStatefulSet:
		st := &Get[*appsv1.StatefulSet](s, c.Workload.Name).Status
		st.ReadyReplicas, st.AvailableReplicas = 0, 0
	case desired.KindJob:
		Get[*batchv1.Job](s, c.Workload.Name).Status = batchv1.JobStatus{Active: 1}
	}
	pods := s.Pods(component)
	for _, p := range pods {
		for i := range p.Status.Conditions {
			if k := p.Status.Conditions[i].Type; k != corev1.PodScheduled {
				p.Status.Conditions[i].Status, p.Status.Conditions[i].LastTransitionTime = corev1.ConditionFalse, Before(10*time.Minute)
			}
		}
		for i := range p.Status.ContainerStatuses {
			p.Status.ContainerStatuses[i].Ready = false
		}
		for _, o := range s.Objects {
			if set, ok := o.(*appsv1.ReplicaSet); ok && metav1.IsControlledBy(p, set) {
				set.Status.ReadyReplicas, set.Status.AvailableReplicas = 0, 0
			}
		}
	}
	return pods
}

// Starts lets the pods of a component be new: nothing is wrong with them yet.
func (s *Scene) Starts(component string) {
	for _, p := range s.unready(component) {
		p.CreationTimestamp = Before(time.Second)
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].LastTransitionTime = Before(time.Second)
		}
	}
}

// Crashes lets the pods of a component end again and again.
func (s *Scene) Crashes(component string, code int32, lastWords string) {
	for _, p := range s.unready(component) {
		end := &corev1.ContainerStateTerminated{ExitCode: code, Reason: "Error", Message: lastWords, FinishedAt: Before(time.Minute)}
		p.Status.ContainerStatuses[0].RestartCount = 7
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: "CrashLoopBackOff", Message: "back-off 5m0s restarting failed container"}}
		p.Status.ContainerStatuses[0].LastTerminationState = corev1.ContainerState{Terminated: end}
	}
}

// LacksImage lets the registry not have the image of a component.
func (s *Scene) LacksImage(component string) {
	for _, p := range s.unready(component) {
		image := p.Spec.Containers[0].Image
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff",
			Message: `Back-off pulling image "` + image + `": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "` + image + `": not found`}}
	}
}

// LacksVolumes lets the claims of a component ask for a StorageClass that is not there.
func (s *Scene) LacksVolumes(component, class string) {
	for _, p := range s.unready(component) {
		p.Spec.NodeName = ""
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
			Reason: "Unschedulable", LastTransitionTime: Before(10 * time.Minute), Message: "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."}}}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				claim := Get[*corev1.PersistentVolumeClaim](s, v.PersistentVolumeClaim.ClaimName)
				claim.Spec.StorageClassName, claim.Status.Phase = &class, corev1.ClaimPending
				claim.CreationTimestamp = Before(10 * time.Minute)
			}
		}
	}
}

// Changed says that somebody wrote an object a while ago.
func (s *Scene) Changed(obj client.Object, by string, ago time.Duration) {
	obj.SetManagedFields(append(obj.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, Time: new(Before(ago))}))
}

// Happened is an event about an object.
func (s *Scene) Happened(about client.Object, reason, message string, times int32) {
	s.Add(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: Namespace, Name: about.GetName() + "." + reason},
		InvolvedObject: corev1.ObjectReference{Kind: KindOf(about).Kind, Namespace: Namespace, Name: about.GetName(), UID: about.GetUID()},
		Reason:         reason, Message: message, Count: times, Type: corev1.EventTypeWarning, LastTimestamp: Before(time.Minute),
	})
}

// Deletes lets the application be on its way out for two minutes, held by finalizers.
func (s *Scene) Deletes(finalizers ...string) {
	at := Before(2 * time.Minute)
	s.App.SetDeletionTimestamp(&at)
	s.App.SetFinalizers(finalizers)
}
