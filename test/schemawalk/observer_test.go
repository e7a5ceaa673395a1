package schemawalk

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// claimResource is simulated but not compared: claims have no owner and are retained.
const claimResource = "persistentvolumeclaims"

// childResources are the compared kinds of children. Revisions are not compared, because they contain earlier specs.
var childResources = map[string]schema.GroupVersionResource{
	"deployments":              {Group: "apps", Version: "v1", Resource: "deployments"},
	"statefulsets":             {Group: "apps", Version: "v1", Resource: "statefulsets"},
	claimResource:              {Version: "v1", Resource: claimResource},
	"services":                 {Version: "v1", Resource: "services"},
	"configmaps":               {Version: "v1", Resource: "configmaps"},
	"jobs":                     {Group: "batch", Version: "v1", Resource: "jobs"},
	"cronjobs":                 {Group: "batch", Version: "v1", Resource: "cronjobs"},
	"horizontalpodautoscalers": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	"poddisruptionbudgets":     {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"ingresses":                {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"httproutes":               {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
}

func applicationResource(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: resource}
}

// observer stores the objects of one namespace by owner.
type observer struct {
	mu              sync.Mutex
	apps            map[string]*unstructured.Unstructured
	childrenByOwner map[types.UID]map[string]*unstructured.Unstructured
}

// startObserver watches the objects and simulates the controllers of children.
func startObserver(t *testing.T, client dynamic.Interface, namespace string, kinds []kind) *observer {
	t.Helper()
	v := &observer{apps: map[string]*unstructured.Unstructured{}, childrenByOwner: map[types.UID]map[string]*unstructured.Unstructured{}}
	p := &controllerSim{client: client, logf: t.Logf}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	addHandler := func(resource schema.GroupVersionResource, changed, deleted func(*unstructured.Unstructured)) {
		h := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { changed(o.(*unstructured.Unstructured)) },
			UpdateFunc: func(_, o any) { changed(o.(*unstructured.Unstructured)) },
			DeleteFunc: func(o any) {
				if tombstone, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = tombstone.Obj
				}
				deleted(o.(*unstructured.Unstructured))
			},
		}
		if _, err := informers.ForResource(resource).Informer().AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds {
		addHandler(applicationResource(k.resource), v.onApp, func(*unstructured.Unstructured) {})
	}
	for name, resource := range childResources {
		key := func(o *unstructured.Unstructured) string { return name + "/" + o.GetName() }
		addHandler(resource, func(o *unstructured.Unstructured) { v.onChild(key(o), o); queue.Add(key(o)) },
			func(o *unstructured.Unstructured) { v.onChildDeleted(key(o), o) })
	}
	informers.Start(t.Context().Done())
	informers.WaitForCacheSync(t.Context().Done())
	for range 4 {
		go p.run(t.Context(), queue, informers, namespace)
	}
	t.Cleanup(queue.ShutDown)
	return v
}

func (p *controllerSim) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], informers dynamicinformer.DynamicSharedInformerFactory, namespace string) {
	for {
		key, closed := queue.Get()
		if closed {
			return
		}
		resource, name, _ := splitKey(key)
		o, err := informers.ForResource(childResources[resource]).Lister().ByNamespace(namespace).Get(name)
		if err == nil {
			p.handle(ctx, resource, o.(*unstructured.Unstructured))
		}
		queue.Done(key)
	}
}

func splitKey(key string) (resource, name string, ok bool) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:], true
		}
	}
	return "", "", false
}

func (v *observer) onApp(o *unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.apps[o.GetName()] = o
}

func (v *observer) onChild(key string, o *unstructured.Unstructured) {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.childrenByOwner[owner.UID] == nil {
		v.childrenByOwner[owner.UID] = map[string]*unstructured.Unstructured{}
	}
	v.childrenByOwner[owner.UID][key] = o
}

func (v *observer) onChildDeleted(key string, o *unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, owned := range v.childrenByOwner {
		if known := owned[key]; known != nil && known.GetUID() == o.GetUID() {
			delete(owned, key)
		}
	}
}

// children returns the current children of an object.
func (v *observer) children(owner types.UID) []*unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, key := range sortedKeys(v.childrenByOwner[owner]) {
		out = append(out, v.childrenByOwner[owner][key])
	}
	return out
}

// notReadyReason returns "" if an object is ready in a generation, or else the reason.
func (v *observer) notReadyReason(name string, generation int64) string {
	v.mu.Lock()
	app := v.apps[name]
	v.mu.Unlock()
	if app == nil || app.GetGeneration() < generation {
		return "not observed yet"
	}
	c, err := readyCondition(app)
	switch {
	case err != nil:
		return err.Error()
	case c == nil:
		return "its status is of an old generation"
	case c.Status != metav1.ConditionTrue:
		return fmt.Sprintf("Ready is %s/%s: %s", c.Status, c.Reason, c.Message)
	}
	return ""
}

// isRejected reports whether the status of an object rejects the spec of a generation.
func (v *observer) isRejected(name string, generation int64) bool {
	v.mu.Lock()
	app := v.apps[name]
	v.mu.Unlock()
	if app == nil || app.GetGeneration() < generation {
		return false
	}
	c, err := readyCondition(app)
	return err == nil && c != nil && c.Status == metav1.ConditionFalse && (c.Reason == "ApplyFailed" || c.Reason == "InvalidSpec")
}

// readyCondition returns the Ready condition, or nil if it is not of the current generation.
func readyCondition(app *unstructured.Unstructured) (*metav1.Condition, error) {
	var status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Conditions         []metav1.Condition `json:"conditions"`
	}
	content, _ := app.Object["status"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
		return nil, err
	}
	c := meta.FindStatusCondition(status.Conditions, "Ready")
	if c == nil || status.ObservedGeneration != app.GetGeneration() || c.ObservedGeneration != app.GetGeneration() {
		return nil, nil
	}
	return c, nil
}
