package storage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
)

// Retries are fast and frequent, because tests wait for them.
const (
	minBackoff = 200 * time.Millisecond
	maxBackoff = 10 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[cache.ObjectName]

// controller implements the sidecars of a CSI driver: it provisions, expands and deletes volumes.
type controller struct {
	node   string
	client kubernetes.Interface
	log    *slog.Logger
	now    func() time.Time
	disk   interface {
		create(ctx context.Context, id string, size int64) error
		enlarge(ctx context.Context, id string, size int64) error
		remove(ctx context.Context, id string) error
	}

	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister

	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder

	claimQueue, volumeQueue queue
}

func newController(o Options, client kubernetes.Interface, factory informers.SharedInformerFactory, d *disk) (*controller, error) {
	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	broadcaster := record.NewBroadcaster()
	c := &controller{
		node:        o.Node,
		client:      client,
		log:         o.Log,
		now:         time.Now,
		disk:        d,
		claims:      claims.Lister(),
		volumes:     volumes.Lister(),
		classes:     classes.Lister(),
		broadcaster: broadcaster,
		recorder:    broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: DriverName, Host: o.Node}),
		claimQueue:  newQueue("claims"),
		volumeQueue: newQueue("volumes"),
	}
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		enqueue  func(metav1.Object)
	}{
		{claims.Informer(), func(o metav1.Object) { c.claimQueue.Add(cache.MetaObjectToName(o)) }},
		{volumes.Informer(), c.enqueueVolume},
		{classes.Informer(), c.enqueueClass},
	} {
		if _, err := w.informer.AddEventHandler(onChange(w.enqueue)); err != nil {
			return nil, fmt.Errorf("watch claims, volumes and classes: %w", err)
		}
	}
	return c, nil
}

func newQueue(name string) queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](minBackoff, maxBackoff),
		workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{Name: name})
}

// onChange calls enqueue for new and changed objects. Deletions need no action: a finalizer keeps each volume until its
// file is deleted.
func onChange(enqueue func(metav1.Object)) cache.ResourceEventHandler {
	add := func(obj any) {
		if o, ok := obj.(metav1.Object); ok {
			enqueue(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, obj any) { add(obj) },
	}
}

// enqueueVolume also enqueues the claim: it may have been bound to a volume that was not in the cache yet.
func (c *controller) enqueueVolume(volume metav1.Object) {
	c.volumeQueue.Add(cache.MetaObjectToName(volume))
	if pv, ok := volume.(*corev1.PersistentVolume); ok && pv.Spec.ClaimRef != nil {
		c.claimQueue.Add(cache.NewObjectName(pv.Spec.ClaimRef.Namespace, pv.Spec.ClaimRef.Name))
	}
}

// enqueueClass enqueues all claims and volumes of a class, because a switch may have changed.
func (c *controller) enqueueClass(class metav1.Object) {
	claims, err := c.claims.List(labels.Everything())
	if err != nil { // cannot fail for a registered index
		return
	}
	for _, claim := range claims {
		if classOf(claim) == class.GetName() {
			c.claimQueue.Add(cache.MetaObjectToName(claim))
		}
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return
	}
	for _, pv := range volumes {
		if pv.Spec.StorageClassName == class.GetName() {
			c.volumeQueue.Add(cache.MetaObjectToName(pv))
		}
	}
}

// run processes both queues until ctx ends, each with one worker to keep the event order readable.
func (c *controller) run(ctx context.Context) {
	c.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.client.CoreV1().Events("")})
	defer c.broadcaster.Shutdown()
	defer context.AfterFunc(ctx, func() {
		c.claimQueue.ShutDown()
		c.volumeQueue.ShutDown()
	})()
	var workers sync.WaitGroup
	workers.Go(func() { c.work(ctx, c.claimQueue, c.syncClaim) })
	workers.Go(func() { c.work(ctx, c.volumeQueue, c.syncVolume) })
	workers.Wait()
}

func (c *controller) work(ctx context.Context, q queue, sync func(context.Context, cache.ObjectName) error) {
	for {
		key, shutDown := q.Get()
		if shutDown {
			return
		}
		err := sync(ctx, key)
		switch {
		case err == nil:
			q.Forget(key)
		case apierrors.IsConflict(err), errors.Is(err, errInUse):
			// The cache is stale, or the kubelet has not unmounted yet: both are expected and not logged.
			q.AddRateLimited(key)
		default:
			c.log.WarnContext(ctx, "Sync failed; retrying", "object", key.String(), "error", err)
			q.AddRateLimited(key)
		}
		q.Done(key)
	}
}

// syncClaim provisions or expands the volume of one claim.
func (c *controller) syncClaim(ctx context.Context, key cache.ObjectName) error {
	claim, err := c.claims.PersistentVolumeClaims(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil // its volume is handled by the deleter
	}
	if err != nil {
		return fmt.Errorf("get PersistentVolumeClaim %s: %w", key, err)
	}
	class, err := c.classes.Get(classOf(claim))
	if apierrors.IsNotFound(err) {
		return nil // synced again when the class appears
	}
	if err != nil {
		return fmt.Errorf("get StorageClass %s: %w", classOf(claim), err)
	}
	if class.Provisioner != DriverName || claim.DeletionTimestamp != nil {
		return nil
	}
	for _, name := range unknownSwitches(claim.Annotations) {
		c.recorder.Eventf(claim, corev1.EventTypeWarning, "UnknownSwitch", "annotation %s is not a known switch", name)
	}
	if claim.Spec.VolumeName == "" {
		return c.provision(ctx, claim, class)
	}
	pv, err := c.volumes.Get(claim.Spec.VolumeName)
	if apierrors.IsNotFound(err) {
		return nil // synced again when the volume appears
	}
	if err != nil {
		return fmt.Errorf("get PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	if !isManaged(pv) || !isBoundTo(pv, claim) {
		return nil
	}
	if err := c.copyFailDelete(ctx, claim, pv); err != nil {
		return err
	}
	return c.expand(ctx, claim, pv, class)
}

// volumeFaults returns the switches for a volume on its claim, on the PV and on its class.
func (c *controller) volumeFaults(name string) (faults, error) {
	pv, err := c.volumes.Get(name)
	if err != nil {
		return nil, fmt.Errorf("get PersistentVolume %s: %w", name, err)
	}
	var claim *corev1.PersistentVolumeClaim
	if ref := pv.Spec.ClaimRef; ref != nil {
		// A later claim of the same name is ignored.
		if found, err := c.claims.PersistentVolumeClaims(ref.Namespace).Get(ref.Name); err == nil && isBoundTo(pv, found) {
			claim = found
		}
	}
	class, err := c.classes.Get(pv.Spec.StorageClassName)
	if err != nil {
		class = nil // a volume can outlive its class
	}
	return collectFaults(claim, pv, class), nil
}

// collectFaults returns the annotations of the objects in order of precedence; each object may be nil.
func collectFaults(claim *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume, class *storagev1.StorageClass) faults {
	var f faults
	if claim != nil {
		f = append(f, claim.Annotations)
	}
	if pv != nil {
		f = append(f, pv.Annotations)
	}
	if class != nil {
		f = append(f, class.Annotations)
	}
	return f
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

func isManaged(pv *corev1.PersistentVolume) bool {
	return pv.Spec.CSI != nil && pv.Spec.CSI.Driver == DriverName && pv.Annotations[annProvisionedBy] == DriverName
}

func isBoundTo(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	return pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID == claim.UID
}
