package podsim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// workers is enough to keep an API server on a small machine busy.
const workers = 16

// Simulator simulates the pods of one node until its context ends or Stop is called.
type Simulator struct {
	client           kubernetes.Interface
	node             string
	schedulesPods    bool
	terminationDelay time.Duration
	now              func() time.Time

	informer cache.SharedIndexInformer
	pods     listersv1.PodLister
	queue    workqueue.TypedRateLimitingInterface[string]

	stop    context.CancelFunc
	running sync.WaitGroup

	mu         sync.Mutex
	behaviorOf func(*corev1.Pod) Behavior
	podStates  map[types.UID]*podState
	ips        ipAllocator
}

// podState is the state of one pod. Only the worker with its key accesses it.
type podState struct {
	*activeBehavior
	// lastWritten is the pod after the last write; the cache may be older.
	lastWritten *corev1.Pod
	// deletionSeenAt is when the deletion of the pod was first observed.
	deletionSeenAt time.Time
}

// Option configures a Simulator.
type Option func(*Simulator)

// WithBehavior sets the behavior of pods, see [Simulator.SetBehavior].
func WithBehavior(behaviorOf func(*corev1.Pod) Behavior) Option {
	return func(s *Simulator) { s.behaviorOf = behaviorOf }
}

// WithNodeName sets the name of the node; the default is "sim-node". Of several simulators in one cluster, all but one
// need [WithoutScheduling].
func WithNodeName(name string) Option {
	return func(s *Simulator) { s.node = name }
}

// WithoutScheduling leaves the scheduling of pods to a real scheduler. Unschedulable has no effect then: request more
// than the node has.
func WithoutScheduling() Option {
	return func(s *Simulator) { s.schedulesPods = false }
}

// WithTerminationDelay is the time until a deleted pod terminates, at most its grace period. The default is at once.
func WithTerminationDelay(d time.Duration) Option {
	return func(s *Simulator) { s.terminationDelay = d }
}

// Start registers the node and starts the simulation. It returns when all existing pods are known.
func Start(ctx context.Context, cfg *rest.Config, options ...Option) (*Simulator, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "holdfast-test-podsim"
	cfg.QPS = -1
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("start pod simulator: %w", err)
	}
	s := newSimulator(client, options...)
	if err := s.register(ctx); err != nil {
		return nil, fmt.Errorf("start pod simulator: %w", err)
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.running.Go(func() { s.informer.RunWithContext(ctx) })
	s.running.Go(func() { s.heartbeat(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
		err := ctx.Err()
		s.Stop()
		return nil, fmt.Errorf("start pod simulator: list pods: %w", err)
	}
	s.ips.skipUsed(s.cachedPods())
	for range workers {
		s.running.Go(func() { s.runWorker(ctx) })
	}
	context.AfterFunc(ctx, s.queue.ShutDown)
	return s, nil
}

func newSimulator(client kubernetes.Interface, options ...Option) *Simulator {
	informer := newInformer(client)
	s := &Simulator{
		client: client, node: "sim-node", schedulesPods: true, now: time.Now,
		informer: informer, pods: listersv1.NewPodLister(informer.GetIndexer()),
		// A short limit per pod: a conflict is resolved when the cache has caught up.
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, time.Second)),
		podStates: map[types.UID]*podState{},
	}
	for _, o := range options {
		o(s)
	}
	_, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    s.enqueue,
		UpdateFunc: func(_, o any) { s.enqueue(o) },
		DeleteFunc: s.forgetPod,
	})
	must(err)
	return s
}

// SetBehavior sets the behavior of all pods, including existing ones: a pod whose behavior changes starts the new one,
// others are not affected. The function is called concurrently and must only inspect the pod; it returns the zero
// Behavior for the default.
func (s *Simulator) SetBehavior(behaviorOf func(*corev1.Pod) Behavior) {
	s.mu.Lock()
	s.behaviorOf = behaviorOf
	s.mu.Unlock()
	for _, pod := range s.cachedPods() {
		s.enqueue(pod)
	}
}

// Stop stops the simulation like a power failure of a node: node and pods stay, and the lease is not renewed.
func (s *Simulator) Stop() {
	s.stop()
	s.queue.ShutDown()
	s.running.Wait()
}

func (s *Simulator) cachedPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range s.informer.GetStore().List() {
		pods = append(pods, o.(*corev1.Pod))
	}
	return pods
}

func (s *Simulator) enqueue(o any) {
	pod := o.(*corev1.Pod)
	if pod.Spec.NodeName == "" && s.schedulesPods || pod.Spec.NodeName == s.node {
		s.queue.Add(cache.MetaObjectToName(pod).String())
	}
}

func (s *Simulator) forgetPod(o any) {
	if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = tombstone.Obj
	}
	if pod, ok := o.(*corev1.Pod); ok {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.podStates, pod.UID)
	}
}

func (s *Simulator) runWorker(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		s.processKey(ctx, key)
		s.queue.Done(key)
	}
}

func (s *Simulator) processKey(ctx context.Context, key string) {
	next, err := s.sync(ctx, key)
	if err != nil {
		// A conflict only means that the cache is behind.
		if !apierrors.IsConflict(err) && !errors.Is(err, context.Canceled) {
			klog.FromContext(ctx).Error(err, "Could not simulate pod", "pod", key)
		}
		s.queue.AddRateLimited(key)
		return
	}
	s.queue.Forget(key)
	if next > 0 {
		s.queue.AddAfter(key, next)
	}
}
