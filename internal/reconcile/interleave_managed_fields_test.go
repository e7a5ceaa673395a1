package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// fieldManagers merge applied objects and track managed fields with the schema of Kubernetes. Only
// children are applied.
var fieldManagers = func() map[string]*managedfields.FieldManager {
	out := map[string]*managedfields.FieldManager{}
	schemas := applyconfigurations.NewTypeConverter(clientgoscheme.Scheme)
	for _, k := range modelKinds {
		if k.group == appsapi.GroupVersion {
			continue
		}
		m, err := managedfields.NewDefaultFieldManager(schemas, identityConvertor{}, noopDefaulter{}, modelCreater{}, k.group.WithKind(k.name), k.group, "", nil)
		if err != nil {
			panic(err)
		}
		out[k.name] = m
	}
	return out
}()

// identityConvertor converts between versions. There is only one.
type identityConvertor struct{}

func (identityConvertor) Convert(_, _, _ any) error { return fmt.Errorf("there is one version only") }

func (identityConvertor) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (identityConvertor) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// modelCreater creates empty objects of a GroupVersionKind.
type modelCreater struct{}

func (modelCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	return newEmpty(kind.Kind), nil
}

// noopDefaulter sets no defaults: the rules do not depend on them.
type noopDefaulter struct{}

func (noopDefaulter) Default(runtime.Object) {}

// apply is a forced server-side apply.
func (s *server) apply(r ref, body []byte, manager string) (*objectVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	applyConfig := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &applyConfig.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	uid, resourceVersion := applyConfig.GetUID(), applyConfig.GetResourceVersion()
	before := s.objects[r]
	live := newEmpty(r.kind)
	switch {
	case before == nil && uid != "":
		return nil, newConflict(r, "uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
	case before == nil:
	case resourceVersion != "" && resourceVersion != before.object.GetResourceVersion():
		return nil, newConflict(r, "the object has been modified; please apply your changes to the latest version and try again")
	case uid != "" && uid != before.uid():
		return nil, newUIDMismatch(r, uid)
	default:
		live = copyOf(before.object)
	}
	applyConfig.SetUID("")
	applyConfig.SetResourceVersion("")
	obj, err := mergeApply(r, before, live, applyConfig, manager)
	if err != nil {
		return nil, err
	}
	if before == nil {
		return s.create(r, obj)
	}
	return s.update(before, obj), nil
}

// mergeCache caches the results of applies: a search repeats the same ones.
var mergeCache sync.Map

// mergeApply merges an applied configuration into an object.
func mergeApply(r ref, before *objectVersion, live client.Object, applyConfig *unstructured.Unstructured, manager string) (client.Object, error) {
	content, err := json.Marshal(applyConfig.Object)
	if err != nil {
		return nil, err
	}
	key := r.String() + manager + string(content)
	if before != nil {
		key += before.digest
	}
	if cached, ok := mergeCache.Load(key); ok {
		return copyOf(cached.(client.Object)), nil
	}
	raw, err := fieldManagers[r.kind].Apply(live, applyConfig, manager, true)
	if err != nil {
		return nil, err
	}
	obj, err := toTyped(r.kind, raw)
	if err == nil {
		mergeCache.Store(key, copyOf(obj))
	}
	return obj, err
}

// toTyped converts a result of the field managers into a typed object.
func toTyped(kind string, raw runtime.Object) (client.Object, error) {
	obj, ok := raw.(client.Object)
	if u, is := raw.(*unstructured.Unstructured); is {
		obj, ok = newEmpty(kind), true
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
			return nil, err
		}
	}
	if !ok {
		return nil, fmt.Errorf("%T is not an object", raw)
	}
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	obj.SetManagedFields(fields)
	return obj, nil
}

// edit is an update by another field manager. The caller must not hold the lock.
func (s *server) edit(r ref, manager string, change func(client.Object)) (*objectVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[r]
	if before == nil {
		return nil, notFound(r)
	}
	obj := copyOf(before.object)
	change(obj)
	return s.storeEdit(before, obj, manager)
}

// storeEdit stores an edit with its managed fields.
func (s *server) storeEdit(before *objectVersion, obj client.Object, manager string) (*objectVersion, error) {
	if fieldManagers[before.kind] != nil && manager != "" {
		raw, err := fieldManagers[before.kind].Update(before.object, obj, manager)
		if err != nil {
			return nil, err
		}
		if obj, err = toTyped(before.kind, raw); err != nil {
			return nil, err
		}
	}
	return s.update(before, obj), nil
}

// patch performs a JSON patch or a merge patch of an object or its status.
func (s *server) patch(r ref, kind types.PatchType, body []byte, manager string, status bool) (*objectVersion, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[r]
	if before == nil {
		return nil, notFound(r)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(before.object)
	if err != nil {
		return nil, err
	}
	changed := unstructured.Unstructured{Object: content}
	if kind == types.JSONPatchType {
		err = jsonPatch(changed.Object, body)
	} else {
		var change map[string]any
		if err = json.Unmarshal(body, &change); err == nil {
			mergePatch(changed.Object, change)
		}
	}
	if err != nil {
		return nil, apierrors.NewInvalid(schema.GroupKind{Kind: r.kind}, r.name, nil)
	}
	switch {
	case changed.GetResourceVersion() != before.object.GetResourceVersion():
		return nil, newConflict(r, "the object has been modified; please apply your changes to the latest version and try again")
	case changed.GetUID() != before.uid():
		return nil, newUIDMismatch(r, changed.GetUID())
	}
	obj := newEmpty(r.kind)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(changed.Object, obj); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	for _, f := range obj.GetFinalizers() {
		if before.deleting() && !slices.Contains(before.object.GetFinalizers(), f) {
			return nil, apierrors.NewInvalid(schema.GroupKind{Kind: r.kind}, r.name, nil) // no finalizers can be added during deletion
		}
	}
	if status { // a status patch changes nothing else
		withStatus := copyOf(before.object)
		copyStatus(withStatus, obj)
		return s.update(before, withStatus), nil
	}
	copyStatus(obj, before.object)
	return s.storeEdit(before, obj, manager)
}

func copyStatus(to, from client.Object) {
	switch t := to.(type) {
	case *appsapi.AppService:
		t.Status = *from.(*appsapi.AppService).Status.DeepCopy()
	case *appsapi.AppStack:
		t.Status = *from.(*appsapi.AppStack).Status.DeepCopy()
	}
}

// mergePatch applies a merge patch (RFC 7386) in place.
func mergePatch(to, change map[string]any) {
	for k, v := range change {
		inner, ok := v.(map[string]any)
		switch {
		case v == nil:
			delete(to, k)
		case !ok:
			to[k] = toInt64IfWhole(v)
		default:
			current, ok := to[k].(map[string]any)
			if !ok {
				current = map[string]any{}
			}
			mergePatch(current, inner)
			to[k] = current
		}
	}
}

// toInt64IfWhole converts whole numbers as typed objects have them; JSON has only floats.
func toInt64IfWhole(v any) any {
	if f, ok := v.(float64); ok && f == float64(int64(f)) {
		return int64(f)
	}
	return v
}

// jsonPatch implements the three operations that the engine uses, on fields of maps.
func jsonPatch(to map[string]any, body []byte) error {
	var operations []struct {
		Op, Path string
		Value    any
	}
	if err := json.Unmarshal(body, &operations); err != nil {
		return err
	}
	for _, o := range operations {
		path := strings.Split(strings.TrimPrefix(o.Path, "/"), "/")
		current, found, err := unstructured.NestedFieldNoCopy(to, path...)
		if err != nil {
			return err
		}
		switch o.Op {
		case "test":
			if !reflect.DeepEqual(current, o.Value) {
				return fmt.Errorf("test of %s failed", o.Path)
			}
		case "replace", "add":
			if o.Op == "replace" && !found {
				return fmt.Errorf("%s does not exist", o.Path)
			}
			parent := to
			for _, p := range path[:len(path)-1] {
				parent = parent[p].(map[string]any)
			}
			parent[path[len(path)-1]] = o.Value
		default:
			return fmt.Errorf("operation %s is not implemented", o.Op)
		}
	}
	return nil
}
