package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	appsinformers "k8s.io/client-go/informers/apps/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	informers "github.com/holdfast-dev/holdfast/client/informers/externalversions/api/v1alpha1"
	listers "github.com/holdfast-dev/holdfast/client/listers/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/peers/web"
)

const controllerName = "sample-peer"

type controller struct {
	kube kubernetes.Interface
	apps versioned.Interface

	deployments appslisters.DeploymentLister
	services    corelisters.ServiceLister
	appServices listers.AppServiceLister
	synced      []cache.InformerSynced

	queue    workqueue.TypedRateLimitingInterface[cache.ObjectName]
	recorder record.EventRecorder
}

func newController(ctx context.Context, kube kubernetes.Interface, apps versioned.Interface,
	deployments appsinformers.DeploymentInformer, services coreinformers.ServiceInformer, appServices informers.AppServiceInformer,
) (*controller, error) {
	utilruntime.Must(appsapi.AddToScheme(kubescheme.Scheme)) // events need the kind of their object
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	c := &controller{
		kube: kube, apps: apps,
		deployments: deployments.Lister(), services: services.Lister(), appServices: appServices.Lister(),
		synced: []cache.InformerSynced{deployments.Informer().HasSynced, services.Informer().HasSynced, appServices.Informer().HasSynced},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 1000*time.Second)),
		recorder: broadcaster.NewRecorder(kubescheme.Scheme, corev1.EventSource{Component: controllerName}),
	}
	_, err := appServices.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    c.enqueue,
		UpdateFunc: func(_, after any) { c.enqueue(after) },
	})
	if err != nil {
		return nil, err
	}
	for _, children := range []cache.SharedIndexInformer{deployments.Informer(), services.Informer()} {
		if _, err := children.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: c.enqueueOwner,
			UpdateFunc: func(before, after any) {
				// Ignore resyncs; the AppService's own resync covers them.
				if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
					c.enqueueOwner(after)
				}
			},
			DeleteFunc: c.enqueueOwner,
		}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *controller) enqueue(obj any) {
	name, err := cache.ObjectToName(obj)
	if err != nil {
		utilruntime.HandleError(err)
		return
	}
	c.queue.Add(name)
}

// enqueueOwner enqueues the AppService of a child.
func (c *controller) enqueueOwner(obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	child, ok := obj.(metav1.Object)
	if !ok {
		utilruntime.HandleError(fmt.Errorf("unexpected type %T of a child", obj))
		return
	}
	owner := metav1.GetControllerOf(child)
	if owner == nil || owner.Kind != "AppService" {
		return
	}
	app, err := c.appServices.AppServices(child.GetNamespace()).Get(owner.Name)
	if err != nil {
		return // deleted: the garbage collector deletes the child, too
	}
	c.enqueue(app)
}

// run runs the workers until the context ends.
func (c *controller) run(ctx context.Context, workers int, ready func()) error {
	defer c.queue.ShutDown()
	if !cache.WaitForCacheSync(ctx.Done(), c.synced...) {
		return fmt.Errorf("wait for caches: %w", context.Cause(ctx))
	}
	for range workers {
		go wait.UntilWithContext(ctx, c.work, time.Second)
	}
	ready()
	<-ctx.Done()
	return nil
}

func (c *controller) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if err := c.sync(ctx, key); err != nil {
			klog.ErrorS(err, "Retrying", "appService", key)
			c.queue.AddRateLimited(key)
		} else {
			c.queue.Forget(key)
		}
		c.queue.Done(key)
	}
}

// sync reconciles one AppService.
func (c *controller) sync(ctx context.Context, key cache.ObjectName) error {
	app, err := c.appServices.AppServices(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	deployment, err := c.syncDeployment(ctx, app)
	if err != nil {
		return err
	}
	if web.HasService(app) {
		if err := c.syncService(ctx, app); err != nil {
			return err
		}
	}
	if err := c.updateStatus(ctx, app, deployment); err != nil {
		return err
	}
	c.recorder.Event(app, corev1.EventTypeNormal, "Synced", "AppService synced successfully")
	return nil
}

func (c *controller) syncDeployment(ctx context.Context, app *appsapi.AppService) (*appsv1.Deployment, error) {
	want := web.Deployment(app)
	have, err := c.deployments.Deployments(app.Namespace).Get(want.Name)
	if apierrors.IsNotFound(err) {
		have, err = c.kube.AppsV1().Deployments(app.Namespace).Create(ctx, want, metav1.CreateOptions{FieldManager: controllerName})
	}
	if err != nil {
		return nil, err
	}
	if err := c.ensureOwned(app, have); err != nil {
		return nil, err
	}
	if want.Spec.Replicas != nil && *want.Spec.Replicas != *have.Spec.Replicas ||
		app.Spec.Image != have.Spec.Template.Spec.Containers[0].Image {
		return c.kube.AppsV1().Deployments(app.Namespace).Update(ctx, want, metav1.UpdateOptions{FieldManager: controllerName})
	}
	return have, nil
}

func (c *controller) syncService(ctx context.Context, app *appsapi.AppService) error {
	want := web.Service(app)
	have, err := c.services.Services(app.Namespace).Get(want.Name)
	if apierrors.IsNotFound(err) {
		have, err = c.kube.CoreV1().Services(app.Namespace).Create(ctx, want, metav1.CreateOptions{FieldManager: controllerName})
	}
	if err != nil {
		return err
	}
	if err := c.ensureOwned(app, have); err != nil {
		return err
	}
	if slices.Equal(want.Spec.Ports, have.Spec.Ports) {
		return nil
	}
	changed := have.DeepCopy() // keeps the cluster IP
	changed.Spec.Ports = want.Spec.Ports
	_, err = c.kube.CoreV1().Services(app.Namespace).Update(ctx, changed, metav1.UpdateOptions{FieldManager: controllerName})
	return err
}

// ensureOwned rejects a child of another owner.
func (c *controller) ensureOwned(app *appsapi.AppService, child interface {
	metav1.Object
	runtime.Object
},
) error {
	if metav1.IsControlledBy(child, app) {
		return nil
	}
	err := fmt.Errorf("%T %s exists and is not managed by this AppService", child, child.GetName())
	c.recorder.Event(app, corev1.EventTypeWarning, "ErrResourceExists", err.Error())
	return err
}

// updateStatus writes the status in every reconciliation, whether or not it has changed.
func (c *controller) updateStatus(ctx context.Context, app *appsapi.AppService, d *appsv1.Deployment) error {
	changed := app.DeepCopy() // objects from a lister are read-only
	web.SetReadyStatus(changed, web.Available(d), d.Status.Replicas, d.Status.AvailableReplicas)
	_, err := c.apps.AppsV1alpha1().AppServices(app.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: controllerName})
	return err
}
