package reconcile

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// The API server of the model. It stores plain values, so that a state can be copied, and behaves
// like the real one where the engine depends on it, which interleave_contract_test.go checks.

// modelNamespace is the only namespace of the model.
const modelNamespace = "shop"

// epoch is the timestamp of everything: passing time must not make equal states different.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// lastResourceVersion generates resourceVersions. They are unique within a search, also across
// branches, so that a resourceVersion identifies an object.
var lastResourceVersion atomic.Int64

// ref identifies an object of the model.
type ref struct{ kind, name string }

func (r ref) String() string { return r.kind + "/" + r.name }

// objectVersion is an immutable version of an object.
type objectVersion struct {
	ref
	object          client.Object
	cached          client.Object // as caches keep it
	resourceVersion int64
	digest          string // of the content, without resourceVersion and timestamps
	deleted         bool   // the last version of a deleted object
}

func (v *objectVersion) uid() types.UID { return v.object.GetUID() }

func (v *objectVersion) deleting() bool { return v.object.GetDeletionTimestamp() != nil }

// modelKinds are the kinds of the model, in the order in which steps are tried.
var modelKinds = []struct {
	name  string
	group schema.GroupVersion
	empty func() client.Object
}{
	{"AppService", appsapi.GroupVersion, func() client.Object { return &appsapi.AppService{} }},
	{"AppStack", appsapi.GroupVersion, func() client.Object { return &appsapi.AppStack{} }},
	{"ControllerRevision", appsv1.SchemeGroupVersion, func() client.Object { return &appsv1.ControllerRevision{} }},
	{"Deployment", appsv1.SchemeGroupVersion, func() client.Object { return &appsv1.Deployment{} }},
	{"Job", batchv1.SchemeGroupVersion, func() client.Object { return &batchv1.Job{} }},
	{"Service", corev1.SchemeGroupVersion, func() client.Object { return &corev1.Service{} }},
}

var modelScheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// kindOf returns the kind of an object, or "" if the model does not have it.
func kindOf(obj client.Object) string {
	t := reflect.TypeOf(obj)
	for _, k := range modelKinds {
		if reflect.TypeOf(k.empty()) == t {
			return k.name
		}
	}
	return ""
}

func newEmpty(kind string) client.Object {
	for _, k := range modelKinds {
		if k.name == kind {
			obj := k.empty()
			obj.GetObjectKind().SetGroupVersionKind(k.group.WithKind(kind))
			return obj
		}
	}
	panic("the model has no " + kind)
}

func copyOf(obj client.Object) client.Object { return obj.DeepCopyObject().(client.Object) }

// server is the API server.
type server struct {
	mu           sync.Mutex
	objects      map[ref]*objectVersion
	incarnations map[ref]int // number of objects of a name so far
	// changes are the changes since the last step, in order.
	changes []*objectVersion
	// onChange is called before every change.
	onChange func(verb string, before, after client.Object)
}

func newServer() *server {
	return &server{objects: map[ref]*objectVersion{}, incarnations: map[ref]int{}}
}

func (s *server) clone() *server {
	return &server{objects: maps.Clone(s.objects), incarnations: maps.Clone(s.incarnations)}
}

func (s *server) get(r ref) *objectVersion {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[r]
}

// sorted returns all objects in a fixed order.
func (s *server) sorted() []*objectVersion {
	return slices.SortedFunc(maps.Values(s.objects), func(a, b *objectVersion) int { return compareRefs(a.ref, b.ref) })
}

func compareRefs(a, b ref) int {
	if a.kind != b.kind {
		return kindIndex(a.kind) - kindIndex(b.kind)
	}
	switch {
	case a.name < b.name:
		return -1
	case a.name > b.name:
		return 1
	}
	return 0
}

func kindIndex(kind string) int {
	for i, k := range modelKinds {
		if k.name == kind {
			return i
		}
	}
	return -1
}

func resourceOf(r ref) schema.GroupResource {
	return schema.GroupResource{Group: newEmpty(r.kind).GetObjectKind().GroupVersionKind().Group, Resource: r.kind}
}

func notFound(r ref) error { return apierrors.NewNotFound(resourceOf(r), r.name) }

func newConflict(r ref, format string, args ...any) error {
	return apierrors.NewConflict(resourceOf(r), r.name, fmt.Errorf(format, args...))
}

// create stores a new object. The caller holds the lock.
func (s *server) create(r ref, obj client.Object) (*objectVersion, error) {
	if s.objects[r] != nil {
		return nil, apierrors.NewAlreadyExists(resourceOf(r), r.name)
	}
	s.incarnations[r]++
	obj.SetNamespace(modelNamespace)
	obj.SetName(r.name)
	obj.SetUID(types.UID(fmt.Sprintf("%s#%d", r, s.incarnations[r])))
	obj.SetCreationTimestamp(metav1.NewTime(epoch))
	obj.SetDeletionTimestamp(nil)
	if hasGeneration(obj) {
		obj.SetGeneration(1)
	}
	if d, ok := obj.(*appsv1.Deployment); ok && d.Spec.Replicas == nil {
		d.Spec.Replicas = new(int32(1))
	}
	s.notify("create", nil, obj)
	return s.store(r, obj), nil
}

func (s *server) notify(verb string, before, after client.Object) {
	if s.onChange != nil {
		s.onChange(verb, before, after)
	}
}

// update replaces an object if that changes anything, and deletes it once its last finalizer is
// removed. The caller holds the lock.
func (s *server) update(before *objectVersion, obj client.Object) *objectVersion {
	obj.SetUID(before.uid())
	obj.SetCreationTimestamp(before.object.GetCreationTimestamp())
	obj.SetDeletionTimestamp(before.object.GetDeletionTimestamp())
	obj.SetGeneration(before.object.GetGeneration())
	obj.SetResourceVersion(before.object.GetResourceVersion())
	if bumpsGeneration(before.object, obj) {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if digestOf(obj) == before.digest {
		return before
	}
	s.notify("update", before.object, obj)
	if before.deleting() && len(obj.GetFinalizers()) == 0 {
		return s.remove(before)
	}
	return s.store(before.ref, obj)
}

// remove deletes an object. The caller holds the lock.
func (s *server) remove(before *objectVersion) *objectVersion {
	last := newObjectVersion(before.ref, copyOf(before.object))
	last.deleted = true
	delete(s.objects, before.ref)
	s.changes = append(s.changes, last)
	return last
}

func (s *server) store(r ref, obj client.Object) *objectVersion {
	v := newObjectVersion(r, obj)
	s.objects[r] = v
	s.changes = append(s.changes, v)
	return v
}

func newObjectVersion(r ref, obj client.Object) *objectVersion {
	obj.GetObjectKind().SetGroupVersionKind(newEmpty(r.kind).GetObjectKind().GroupVersionKind())
	v := &objectVersion{ref: r, object: obj, resourceVersion: 1000 + lastResourceVersion.Add(1), digest: digestOf(obj)}
	obj.SetResourceVersion(strconv.FormatInt(v.resourceVersion, 10))
	v.cached = stripped(obj)
	if revision, ok := v.cached.(*appsv1.ControllerRevision); ok {
		revision.Data.Raw = nil
	}
	return v
}

// stripped returns an object as typed clients read it, without managedFields.
func stripped(obj client.Object) client.Object {
	out := copyOf(obj)
	out.SetManagedFields(nil)
	out.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return out
}

var timestampPattern = regexp.MustCompile(`"(lastTransitionTime|time|firstTime|lastTime)":"[^"]*"`)

// digestOf is equal for objects that differ only in resourceVersion and timestamps.
func digestOf(obj client.Object) string {
	resourceVersion := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	content, err := json.Marshal(obj)
	obj.SetResourceVersion(resourceVersion)
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(timestampPattern.ReplaceAll(content, nil))
	return string(sum[:12])
}

func hasGeneration(obj client.Object) bool {
	switch obj.(type) {
	case *corev1.Service, *appsv1.ControllerRevision:
		return false
	}
	return true
}

// bumpsGeneration reports whether a change increases the generation: a change of the spec, and for
// a Deployment also of the annotations.
func bumpsGeneration(before, after client.Object) bool {
	switch b := before.(type) {
	case *appsv1.Deployment:
		a := after.(*appsv1.Deployment)
		return !equality.Semantic.DeepEqual(b.Spec, a.Spec) || !equality.Semantic.DeepEqual(b.Annotations, a.Annotations)
	case *batchv1.Job:
		return !equality.Semantic.DeepEqual(b.Spec, after.(*batchv1.Job).Spec)
	case *appsapi.AppService:
		return !equality.Semantic.DeepEqual(b.Spec, after.(*appsapi.AppService).Spec)
	case *appsapi.AppStack:
		return !equality.Semantic.DeepEqual(b.Spec, after.(*appsapi.AppStack).Spec)
	}
	return false
}

// delete deletes an object, or marks it as terminating if it has finalizers.
func (s *server) delete(r ref, preconditions *metav1.Preconditions, policy metav1.DeletionPropagation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.objects[r]
	if before == nil {
		return notFound(r)
	}
	if preconditions != nil && preconditions.UID != nil && *preconditions.UID != before.uid() {
		return newConflict(r, "the UID in the precondition (%s) does not match the UID in record (%s)", *preconditions.UID, before.uid())
	}
	if preconditions != nil && preconditions.ResourceVersion != nil && *preconditions.ResourceVersion != before.object.GetResourceVersion() {
		return newConflict(r, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record", *preconditions.ResourceVersion)
	}
	obj := copyOf(before.object)
	s.notify("delete", before.object, obj)
	finalizers := slices.DeleteFunc(obj.GetFinalizers(), func(f string) bool {
		return f == metav1.FinalizerDeleteDependents || f == metav1.FinalizerOrphanDependents
	})
	switch policy {
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	}
	if len(finalizers) == 0 {
		s.remove(before)
		return nil
	}
	obj.SetFinalizers(finalizers)
	if !before.deleting() {
		obj.SetDeletionTimestamp(&metav1.Time{Time: epoch})
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	}
	if digestOf(obj) != before.digest {
		s.store(r, obj)
	}
	return nil
}

// newUIDMismatch is the error for a patch with the UID of another object.
func newUIDMismatch(r ref, uid types.UID) error {
	return apierrors.NewInvalid(newEmpty(r.kind).GetObjectKind().GroupVersionKind().GroupKind(), r.name,
		field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), uid, "field is immutable")})
}
