package simulate

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
	"github.com/holdfast-dev/holdfast/internal/reconcile/retained"
)

var kindPod = corev1.SchemeGroupVersion.WithKind("Pod")

// cluster is the copy of the objects of an application. It is the cache, the API reader and the
// writer of the executor.
type cluster struct {
	Input
	server APIServer
	app    execute.Application

	mu sync.Mutex
	// original are the objects of the input, objects as they are now.
	original, objects map[desired.ID]client.Object
	podsLoaded        bool
	// removedWorkloads are deleted workloads, whose pods are also deleted.
	removedWorkloads map[string]bool
	// bindings are the contents of binding Secrets, changedBindings the names of rewritten ones.
	bindings        map[string]string
	changedBindings map[string]bool

	current         passID
	writtenThisPass map[desired.ID]bool
	lastWrite       map[desired.ID]passID
	// deleted and recreated refer to objects of the cluster, adopted to objects without the managed-by label.
	deleted, recreated map[desired.ID]bool
	adopted            map[desired.ID]client.Object
	unreachable        error
}

func newCluster(in Input, server APIServer) *cluster {
	c := &cluster{
		Input: in, server: server, app: in.App, original: map[desired.ID]client.Object{},
		bindings: map[string]string{}, changedBindings: map[string]bool{}, lastWrite: map[desired.ID]passID{},
		removedWorkloads: map[string]bool{}, deleted: map[desired.ID]bool{}, recreated: map[desired.ID]bool{}, adopted: map[desired.ID]client.Object{},
	}
	for _, obj := range in.Objects {
		if gvk, err := apiutil.GVKForObject(obj, clientgoscheme.Scheme); err == nil {
			c.original[desired.ID{Kind: gvk, Name: obj.GetName()}] = obj
		}
	}
	c.objects = maps.Clone(c.original)
	return c
}

func (c *cluster) startPass() {
	c.current.pass++
	c.writtenThisPass = map[desired.ID]bool{}
}

func (c *cluster) hasWrites() bool { return len(c.writtenThisPass) > 0 }

// get returns an object of the copy, or nil. Callers must not modify it.
func (c *cluster) get(id desired.ID) client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.objects[id]
}

func (c *cluster) retained() retained.Reader { return retained.Reader{Cache: c, APIReader: c} }

// put stores an object that the operator wrote.
func (c *cluster) put(id desired.ID, obj client.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.objects[id] = obj
	c.recordWrite(id)
}

// remove deletes an object.
func (c *cluster) remove(id desired.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.objects, id)
	c.deleted[id] = c.original[id] != nil
	c.recordWrite(id)
}

func (c *cluster) recordWrite(id desired.ID) {
	c.writtenThisPass[id], c.lastWrite[id] = true, c.current
}

// Get reads an object of the copy, or of the cluster if the copy does not have it.
func (c *cluster) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if app, ok := into.(execute.Application); ok {
		return assign(app, c.app)
	}
	gvk, err := apiutil.GVKForObject(into, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	id := desired.ID{Kind: gvk, Name: key.Name}
	if obj := c.get(id); obj != nil {
		return assign(into, obj)
	}
	if c.deleted[id] || gvk == desired.KindSecret && c.SecretsHidden {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: strings.ToLower(gvk.Kind)}, key.Name)
	}
	return c.Reader.Get(ctx, key, into, opts...)
}

// List lists objects of the copy.
func (c *cluster) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	gvk, err := apiutil.GVKForObject(list, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	var o client.ListOptions
	o.ApplyOptions(opts)
	if gvk == kindPod {
		if err := c.loadPods(ctx, o.Namespace); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var items []runtime.Object
	for id, obj := range c.objects {
		if id.Kind != gvk || !c.matches(obj, o) {
			continue
		}
		if _, partial := list.(*metav1.PartialObjectMetadataList); partial {
			obj = partialMetadata(obj, gvk)
		}
		items = append(items, obj)
	}
	return meta.SetList(list, items)
}

// matches evaluates selectors. Field selectors are the indexes of childkind.
func (c *cluster) matches(obj client.Object, o client.ListOptions) bool {
	if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if o.FieldSelector == nil {
		return true
	}
	indexer := childkind.Indexer{Keys: c.Kind.Keys}
	for _, r := range o.FieldSelector.Requirements() {
		if !indexer.Matches(obj, r.Field, r.Value) {
			return false
		}
	}
	return true
}

// loadPods reads all pods of the namespace on first use, because most plans do not need them.
func (c *cluster) loadPods(ctx context.Context, namespace string) error {
	c.mu.Lock()
	loaded := c.podsLoaded
	c.mu.Unlock()
	if loaded {
		return nil
	}
	var pods corev1.PodList
	if err := c.Reader.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range pods.Items {
		if pod := &pods.Items[i]; !c.removedWorkloads[pod.Labels[c.Kind.Keys.Workload]] {
			c.objects[desired.ID{Kind: kindPod, Name: pod.Name}] = pod
		}
	}
	c.podsLoaded = true
	return nil
}

// assign copies an object into another of the same type, or its metadata.
func assign(into, from client.Object) error {
	if m, ok := into.(*metav1.PartialObjectMetadata); ok {
		*m = *partialMetadata(from, m.GroupVersionKind())
		return nil
	}
	src, dst := reflect.ValueOf(from.DeepCopyObject()), reflect.ValueOf(into)
	if src.Type() != dst.Type() {
		return fmt.Errorf("read %T %s as %T", from, from.GetName(), into)
	}
	dst.Elem().Set(src.Elem())
	return nil
}

func partialMetadata(obj client.Object, gvk schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	m := meta.AsPartialObjectMetadata(obj).DeepCopy()
	m.SetGroupVersionKind(gvk)
	return m
}
