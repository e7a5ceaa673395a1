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

// claims are played and not compared: they have no owner, and stay on purpose.
const claims = "persistentvolumeclaims"

// children are the kinds that an application may have. Revisions are none of them: they
// remember what was, so those of a fresh object differ on purpose.
var children = map[string]schema.GroupVersionResource{
	"deployments":              {Group: "apps", Version: "v1", Resource: "deployments"},
	"statefulsets":             {Group: "apps", Version: "v1", Resource: "statefulsets"},
	claims:                     {Version: "v1", Resource: claims},
	"services":                 {Version: "v1", Resource: "services"},
	"configmaps":               {Version: "v1", Resource: "configmaps"},
	"jobs":                     {Group: "batch", Version: "v1", Resource: "jobs"},
	"cronjobs":                 {Group: "batch", Version: "v1", Resource: "cronjobs"},
	"horizontalpodautoscalers": {Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"},
	"poddisruptionbudgets":     {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"ingresses":                {Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"},
	"httproutes":               {Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"},
}

func ours(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: resource}
}

// view is what an observer of one namespace knows, by owner.
type view struct {
	mu   sync.Mutex
	apps map[string]*unstructured.Unstructured
	kids map[types.UID]map[string]*unstructured.Unstructured
}

// watch begins to observe, and plays what Kubernetes would do to children.
func watch(t *testing.T, client dynamic.Interface, namespace string, kinds []kind) *view {
	t.Helper()
	v := &view{apps: map[string]*unstructured.Unstructured{}, kids: map[types.UID]map[string]*unstructured.Unstructured{}}
	p := &player{client: client, report: t.Logf}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	informers := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, namespace, nil)
	listen := func(resource schema.GroupVersionResource, changed, gone func(*unstructured.Unstructured)) {
		h := cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { changed(o.(*unstructured.Unstructured)) },
			UpdateFunc: func(_, o any) { changed(o.(*unstructured.Unstructured)) },
			DeleteFunc: func(o any) {
				if lost, ok := o.(cache.DeletedFinalStateUnknown); ok {
					o = lost.Obj
				}
				gone(o.(*unstructured.Unstructured))
			},
		}
		if _, err := informers.ForResource(resource).Informer().AddEventHandler(h); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range kinds {
		listen(ours(k.resource), v.sawApp, func(*unstructured.Unstructured) {})
	}
	for name, resource := range children {
		key := func(o *unstructured.Unstructured) string { return name + "/" + o.GetName() }
		listen(resource, func(o *unstructured.Unstructured) { v.saw(key(o), o); queue.Add(key(o)) },
			func(o *unstructured.Unstructured) { v.gone(key(o), o) })
	}
	informers.Start(t.Context().Done())
	informers.WaitForCacheSync(t.Context().Done())
	for range 4 {
		go p.run(t.Context(), queue, informers, namespace)
	}
	t.Cleanup(queue.ShutDown)
	return v
}

func (p *player) run(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], informers dynamicinformer.DynamicSharedInformerFactory, namespace string) {
	for {
		key, closed := queue.Get()
		if closed {
			return
		}
		resource, name, _ := cutKey(key)
		o, err := informers.ForResource(children[resource]).Lister().ByNamespace(namespace).Get(name)
		if err == nil {
			p.play(ctx, resource, o.(*unstructured.Unstructured))
		}
		queue.Done(key)
	}
}

func cutKey(key string) (resource, name string, ok bool) {
	for i := range key {
		if key[i] == '/' {
			return key[:i], key[i+1:], true
		}
	}
	return "", "", false
}

func (v *view) sawApp(o *unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.apps[o.GetName()] = o
}

func (v *view) saw(key string, o *unstructured.Unstructured) {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.kids[owner.UID] == nil {
		v.kids[owner.UID] = map[string]*unstructured.Unstructured{}
	}
	v.kids[owner.UID][key] = o
}

func (v *view) gone(key string, o *unstructured.Unstructured) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, all := range v.kids {
		if was := all[key]; was != nil && was.GetUID() == o.GetUID() {
			delete(all, key)
		}
	}
}

// children are those that an object has now.
func (v *view) children(owner types.UID) []*unstructured.Unstructured {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []*unstructured.Unstructured
	for _, key := range sortedKeys(v.kids[owner]) {
		out = append(out, v.kids[owner][key])
	}
	return out
}

// ready is empty when an object is ready with the spec of a generation, and says otherwise
// what keeps it.
func (v *view) ready(name string, generation int64) string {
	v.mu.Lock()
	app := v.apps[name]
	v.mu.Unlock()
	if app == nil || app.GetGeneration() < generation {
		return "not seen yet"
	}
	c, err := readiness(app)
	switch {
	case err != nil:
		return err.Error()
	case c == nil:
		return "its status is about an old generation"
	case c.Status != metav1.ConditionTrue:
		return fmt.Sprintf("Ready is %s/%s: %s", c.Status, c.Reason, c.Message)
	}
	return ""
}

// refuses says whether an object has told that its spec of a generation cannot be had.
func (v *view) refuses(name string, generation int64) bool {
	v.mu.Lock()
	app := v.apps[name]
	v.mu.Unlock()
	if app == nil || app.GetGeneration() < generation {
		return false
	}
	c, err := readiness(app)
	return err == nil && c != nil && c.Status == metav1.ConditionFalse && (c.Reason == "ApplyFailed" || c.Reason == "InvalidSpec")
}

// readiness is the condition Ready, nil unless it is about the spec as it is now.
func readiness(app *unstructured.Unstructured) (*metav1.Condition, error) {
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
