package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/apply"
	"github.com/holdfast-dev/holdfast/internal/childkind"
	"github.com/holdfast-dev/holdfast/internal/configrefs"
	"github.com/holdfast-dev/holdfast/internal/database"
	"github.com/holdfast-dev/holdfast/internal/managercache"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// injectedBug is a deliberate bug of the engine. It shows that a search would find a real one.
type injectedBug struct {
	// applyWithoutPreconditions sends applies without uid and resourceVersion.
	applyWithoutPreconditions bool
	// deleteWithoutPreconditions sends deletes without preconditions.
	deleteWithoutPreconditions bool
	// liveReadsFromCache reads from the cache instead of the API server.
	liveReadsFromCache bool
	// dropUpdatesOf drops the updates of a kind that the cache receives.
	dropUpdatesOf string
}

// writeFailure is the failure of the writes of one reconcile to one kind.
type writeFailure struct {
	kind string
	// written means that the write succeeds and only its response is lost.
	written bool
}

var errConnectionLost = errors.New("connection lost")

// modelClient is the client of a manager: it reads from the cache and writes to the server.
type modelClient struct {
	client.Client // methods that the model does not implement must not be called
	w             *world
	failure       *writeFailure
}

func (c *modelClient) Scheme() *runtime.Scheme { return modelScheme }

func (c *modelClient) Get(_ context.Context, name client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r := ref{kindOf(obj), name.Name}
	if r.kind == "" {
		return notFound(ref{"Service", name.Name}) // there are none of this kind
	}
	v := c.w.caches[r.kind].objects[r.name]
	if v == nil {
		return notFound(r)
	}
	shown := v.cached
	if r.kind == "AppService" || r.kind == "AppStack" {
		shown = copyOf(shown) // only children are shared
	}
	assign(obj, shown)
	return nil
}

// assign copies the content of one object into another.
func assign(obj, from client.Object) { reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(from).Elem()) }

var modelIndexes = map[string]client.IndexerFunc{childkind.IndexOwner: childkind.Indexer{Keys: appsapi.DefaultKeys}.ByOwner, childkind.IndexWorkload: childkind.Indexer{Keys: appsapi.DefaultKeys}.ByWorkload}

func (c *modelClient) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	feed := c.w.caches[itemKind(list)]
	if feed == nil {
		return nil // there are none of this kind
	}
	var items []client.Object
	for _, name := range sortedKeys(feed.objects) {
		items = append(items, feed.objects[name].cached)
	}
	return fillList(list, items, opts)
}

// itemKind returns the kind of the items of a list.
func itemKind(list client.ObjectList) string {
	return strings.TrimSuffix(reflect.TypeOf(list).Elem().Name(), "List")
}

// fillList adds the selected objects to a list.
func fillList(list client.ObjectList, all []client.Object, opts []client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(opts)
	var items []runtime.Object
	for _, obj := range all {
		if o.LabelSelector != nil && !o.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if o.FieldSelector == nil || matchesIndex(obj, o) {
			items = append(items, obj)
		}
	}
	return meta.SetList(list, items)
}

func matchesIndex(obj client.Object, o client.ListOptions) bool {
	for _, want := range o.FieldSelector.Requirements() {
		of, found := modelIndexes[want.Field], false
		for _, value := range of(obj) {
			found = found || value == want.Value
		}
		if !found {
			return false
		}
	}
	return true
}

// write performs one write, unless it is set to fail.
func (c *modelClient) write(r ref, obj client.Object, do func() (*objectVersion, error)) error {
	failing := c.failure != nil && c.failure.kind == r.kind
	if failing && !c.failure.written {
		return errConnectionLost
	}
	v, err := do()
	if err != nil {
		return err
	}
	if failing {
		return errConnectionLost
	}
	if v != nil {
		answer := stripped(v.object)
		answer.SetManagedFields(v.object.GetManagedFields())
		assign(obj, answer)
		c.w.digests.Store(v.resourceVersion, v.digest)
	}
	return nil
}

func (c *modelClient) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	r := ref{kindOf(obj), obj.GetName()}
	return c.write(r, obj, func() (*objectVersion, error) {
		c.w.server.mu.Lock()
		defer c.w.server.mu.Unlock()
		return c.w.server.create(r, copyOf(obj))
	})
}

func (c *modelClient) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var o client.PatchOptions
	o.ApplyOptions(opts)
	r := ref{kindOf(obj), obj.GetName()}
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return c.write(r, obj, func() (*objectVersion, error) {
		if patch.Type() != types.ApplyPatchType {
			return c.w.server.patch(r, patch.Type(), body, o.FieldManager, false)
		}
		if c.w.bug.applyWithoutPreconditions {
			body = withoutPreconditions(body)
		}
		return c.w.server.apply(r, body, o.FieldManager)
	})
}

func withoutPreconditions(body []byte) []byte {
	var content map[string]any
	if err := json.Unmarshal(body, &content); err != nil {
		panic(err)
	}
	delete(content["metadata"].(map[string]any), "uid")
	delete(content["metadata"].(map[string]any), "resourceVersion")
	out, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return out
}

func (c *modelClient) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	var o client.DeleteOptions
	o.ApplyOptions(opts)
	if c.w.bug.deleteWithoutPreconditions {
		o.Preconditions = nil
	}
	policy := metav1.DeletePropagationBackground
	if o.PropagationPolicy != nil {
		policy = *o.PropagationPolicy
	}
	r := ref{kindOf(obj), obj.GetName()}
	return c.write(r, obj, func() (*objectVersion, error) { return nil, c.w.server.delete(r, o.Preconditions, policy) })
}

func (c *modelClient) Status() client.SubResourceWriter { return modelStatus{c: c} }

type modelStatus struct {
	client.SubResourceWriter // methods that the model does not implement must not be called
	c                        *modelClient
}

func (s modelStatus) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	r := ref{kindOf(obj), obj.GetName()}
	body, err := patch.Data(obj)
	if err != nil {
		return err
	}
	return s.c.write(ref{"status", r.name}, obj, func() (*objectVersion, error) {
		return s.c.w.server.patch(r, patch.Type(), body, "", true)
	})
}

// modelReader reads from the server.
type modelReader struct {
	client.Reader // methods that the model does not implement must not be called
	w             *world
}

func (m modelReader) Get(ctx context.Context, name client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	m.w.liveReads.Add(1)
	partial, metadataOnly := obj.(*metav1.PartialObjectMetadata)
	r := ref{kindOf(obj), name.Name}
	if metadataOnly {
		r.kind = partial.GetObjectKind().GroupVersionKind().Kind
	}
	if m.w.bug.liveReadsFromCache && !metadataOnly {
		return (&modelClient{w: m.w}).Get(ctx, name, obj, opts...)
	}
	v := m.w.server.get(r)
	if m.w.bug.liveReadsFromCache {
		v = m.w.caches[r.kind].objects[r.name]
	}
	if v == nil {
		return notFound(r)
	}
	answer := stripped(v.object)
	if metadataOnly {
		partial.SetUID(answer.GetUID())
		partial.SetGeneration(answer.GetGeneration())
		partial.SetDeletionTimestamp(answer.GetDeletionTimestamp())
		partial.SetResourceVersion(answer.GetResourceVersion())
		return nil
	}
	answer.SetManagedFields(v.object.GetManagedFields())
	assign(obj, answer)
	return nil
}

func (m modelReader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	m.w.server.mu.Lock()
	defer m.w.server.mu.Unlock()
	var items []client.Object
	for _, v := range m.w.server.sorted() {
		if v.kind == itemKind(list) {
			items = append(items, stripped(v.object))
		}
	}
	return fillList(list, items, opts)
}

// discardRecorder discards events.
type discardRecorder struct{}

func (discardRecorder) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}

// newModelReconciler returns a reconciler with empty caches.
func newModelReconciler(w *world, kind Kind, name string) *Reconciler {
	c, live := &modelClient{w: w}, modelReader{w: w}
	kind.GVK = newEmpty(name).GetObjectKind().GroupVersionKind()
	prober := database.NewProber(&database.Reconciler{Keys: appsapi.DefaultKeys}, clock.RealClock{}, func(context.Context, types.NamespacedName) {})
	configRefs := configrefs.New(appsapi.DefaultKeys, c, live, configrefs.NewHMACKey(appsapi.DefaultKeys, "", nil, nil))
	applier := apply.New(c, live, c, w)
	r := newReconciler(kind, c, Options{Workers: 1}, &execute.Executor{
		Kind: kind.Kind, ChildKinds: childkind.All, Cache: c, APIReader: live, Writer: applier, Clock: w, OwnWrites: execute.NewOwnWrites(),
		ConfigRefs: configRefs, OptionalKinds: managercache.OptionalKinds{},
		Databases: &databases{cache: c, apiReader: live, clock: w, prober: prober},
	})
	r.events, r.forgetOwner = eventRecorder{discardRecorder{}}, applier.ForgetOwner
	r.forgetName = func(name types.NamespacedName) { configRefs.Forget(name); prober.Forget(name) }
	r.backoff = &backoff{TypedRateLimiter: countingLimiter{}, unreachable: map[request]bool{}}
	r.staleBackoff = countingLimiter{}
	return r
}

// setWriteFailure makes the writes of one reconcile fail.
func setWriteFailure(w *world, kind string, failure *writeFailure) {
	c := w.serviceReconciler.client.(*modelClient)
	if kind == "AppStack" {
		c = w.stackReconciler.client.(*modelClient)
	}
	c.failure = failure
}
