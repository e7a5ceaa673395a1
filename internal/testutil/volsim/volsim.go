// Package volsim simulates storage: it provisions a volume for every claim and expands volumes, or fails to. Binding and
// validation are done by the API server and the controller-manager.
//
// Safety rule: a volume is never removed from a claim.
package volsim

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// StorageClasses. Standard is the default.
const (
	Standard  = "standard"   // expands at once
	LocalPath = "local-path" // the same, with the name that the samples use
	Fixed     = "fixed"      // does not allow expansion
	Full      = "full"       // fails to expand beyond its capacity
	Stuck     = "stuck"      // never completes an expansion
)

// FullCapacity is the maximum size of a volume of class Full.
var FullCapacity = resource.MustParse("2Gi")

const provisioner = "volsim.holdfast.dev"

type simulator struct {
	client kubernetes.Interface
	claims cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// Start creates the StorageClasses and runs until the context ends.
func Start(ctx context.Context, cfg *rest.Config) error {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent, cfg.QPS = "holdfast-test-volsim", -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("start volume simulator: %w", err)
	}
	for _, name := range []string{Standard, LocalPath, Fixed, Full, Stuck} {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, AllowVolumeExpansion: new(name != Fixed)}
		if name == Standard {
			class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("start volume simulator: %w", err)
		}
	}
	s := &simulator{client: client, claims: informers.NewSharedInformerFactory(client, 0).Core().V1().PersistentVolumeClaims().Informer(),
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Second))}
	enqueue := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			s.queue.Add(key)
		}
	}
	if _, err := s.claims.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) }}); err != nil {
		return fmt.Errorf("start volume simulator: %w", err)
	}
	go s.claims.RunWithContext(ctx)
	context.AfterFunc(ctx, s.queue.ShutDown)
	for range 4 {
		go s.runWorker(ctx)
	}
	return nil
}

func (s *simulator) runWorker(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if obj, ok, _ := s.claims.GetIndexer().GetByKey(key); ok {
			if err := s.syncClaim(ctx, obj.(*corev1.PersistentVolumeClaim)); err != nil && !apierrors.IsNotFound(err) {
				s.queue.AddRateLimited(key)
			} else {
				s.queue.Forget(key)
			}
		}
		s.queue.Done(key)
	}
}

// syncClaim provisions or expands the volume of a claim.
func (s *simulator) syncClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	requested, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	switch class {
	case Standard, LocalPath, Fixed, Full, Stuck:
	default:
		return nil // not a class of the simulator
	}
	switch {
	case claim.DeletionTimestamp != nil:
	case claim.Spec.VolumeName == "":
		return s.provision(ctx, claim, class)
	case claim.Status.Phase != corev1.ClaimBound || requested.Cmp(capacity) <= 0 || class == Stuck:
	case class == Full && requested.Cmp(FullCapacity) > 0:
		if claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] != corev1.PersistentVolumeClaimControllerResizeInfeasible {
			return s.patchStatus(ctx, claim, map[string]any{
				"allocatedResources":        map[string]any{"storage": requested.String()},
				"allocatedResourceStatuses": map[string]any{"storage": corev1.PersistentVolumeClaimControllerResizeInfeasible},
			})
		}
	default:
		volume := fmt.Appendf(nil, `{"spec":{"capacity":{"storage":%q}}}`, requested.String())
		if _, err := s.client.CoreV1().PersistentVolumes().Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, volume, metav1.PatchOptions{}); err != nil {
			return err
		}
		return s.patchStatus(ctx, claim, map[string]any{
			"capacity": map[string]any{"storage": requested.String()}, "allocatedResourceStatuses": nil,
			"allocatedResources": map[string]any{"storage": requested.String()},
		})
	}
	return nil
}

func (s *simulator) patchStatus(ctx context.Context, claim *corev1.PersistentVolumeClaim, patchStatus map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID}, "status": patchStatus})
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

func (s *simulator) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim, class string) error {
	_, err := s.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "vol-" + string(claim.UID), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: provisioner, VolumeHandle: string(claim.UID)}},
			ClaimRef:                      &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
