// The program fluxssa is contender C5: the apply engine of Flux, github.com/fluxcd/pkg/ssa as released, in a minimal
// controller. One list and watch provides AppServices, ApplyAll applies the Deployment and the Service of each, and then
// its status is Ready. It is not Flux: there is no source, no inventory, no health check and no interval, and the
// Deployment is not checked again, so that Ready only means applied.
//
// The engine is set up as in Flux's kustomize-controller: a client without a cache, owner labels, and four objects of an
// application applied concurrently.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	informers "github.com/holdfast-dev/holdfast/client/informers/externalversions"
	listers "github.com/holdfast-dev/holdfast/client/listers/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/test/bench/peers/setup"
	"github.com/holdfast-dev/holdfast/test/bench/peers/web"
)

// concurrentApply is the default of kustomize-controller's flag --concurrent-ssa.
const concurrentApply = 4

type applier struct {
	client client.Client
	engine *ssa.ResourceManager
	apps   listers.AppServiceLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

func main() {
	o := setup.ParseFlags()
	ctrl.SetLogger(klog.Background())
	ctx, stop := setup.SignalContext()
	defer stop()
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(appsapi.AddToScheme(scheme))
	c, err := client.New(o.Config, client.Options{Scheme: scheme})
	if err != nil {
		setup.Fatal(err)
	}
	apps, err := versioned.NewForConfig(o.Config)
	if err != nil {
		setup.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(apps, 0)
	informer := factory.Apps().V1alpha1().AppServices()
	a := &applier{
		client: c, engine: ssa.NewResourceManager(c, nil, ssa.Owner{Field: "fluxssa-peer", Group: "fluxssa.bench.holdfast.dev"}),
		apps: informer.Lister(),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, 1000*time.Second)),
	}
	a.engine.SetConcurrency(concurrentApply)
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    a.enqueue,
		UpdateFunc: func(_, after any) { a.enqueue(after) },
	}); err != nil {
		setup.Fatal(err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return // the context ended
	}
	for range o.Workers {
		go wait.UntilWithContext(ctx, a.work, time.Second)
	}
	setup.AnnounceReady()
	<-ctx.Done()
	a.queue.ShutDown()
}

// enqueue adds an AppService unless its current version was already applied.
func (a *applier) enqueue(obj any) {
	app, ok := obj.(*appsapi.AppService)
	if !ok || app.Status.ObservedGeneration == app.Generation {
		return
	}
	a.queue.Add(cache.MetaObjectToName(app))
}

func (a *applier) work(ctx context.Context) {
	for {
		key, shutdown := a.queue.Get()
		if shutdown {
			return
		}
		if err := a.apply(ctx, key); err != nil {
			klog.ErrorS(err, "Retrying", "appService", key)
			a.queue.AddRateLimited(key)
		} else {
			a.queue.Forget(key)
		}
		a.queue.Done(key)
	}
}

// apply applies the objects of an AppService and writes its status.
func (a *applier) apply(ctx context.Context, key cache.ObjectName) error {
	app, err := a.apps.AppServices(key.Namespace).Get(key.Name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	objects, err := manifests(app)
	if err != nil {
		return err
	}
	a.engine.SetOwnerLabels(objects, app.Name, app.Namespace)
	if _, err := a.engine.ApplyAll(ctx, objects, ssa.DefaultApplyOptions()); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	changed := app.DeepCopy()
	web.SetReadyStatus(changed, true, 0, 0)
	if err := a.client.Status().Patch(ctx, changed, client.MergeFrom(app)); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}

// manifests returns the objects of an AppService in the form of manifests.
func manifests(app *appsapi.AppService) ([]*unstructured.Unstructured, error) {
	typed := []runtime.Object{web.Deployment(app)}
	if web.HasService(app) {
		typed = append(typed, web.Service(app))
	}
	var out []*unstructured.Unstructured
	for _, object := range typed {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, fmt.Errorf("encode %T of %s: %w", object, app.Name, err)
		}
		delete(fields, "status") // manifests have no status
		out = append(out, &unstructured.Unstructured{Object: fields})
	}
	return out, nil
}
