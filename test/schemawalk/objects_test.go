package schemawalk

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// freshObject is an object that was created with a spec and never changed. Steps with the same spec share it.
type freshObject struct {
	once sync.Once
	liveObject
	err error
}

// problem returns the reason if the object cannot be used for comparison, or "".
func (f *freshObject) problem(v *observer) string {
	if f.err != nil {
		return "the new object: " + f.err.Error()
	}
	if problem := v.notReadyReason(f.name, f.generation); problem != "" {
		return "the new object: " + problem
	}
	return ""
}

func (w *walk) freshObjectFor(l leaf, spec map[string]any) *freshObject {
	key := l.kind.name + l.namePrefix() + toJSON(spec)
	w.mu.Lock()
	if w.freshObjects[key] == nil {
		w.freshObjects[key] = &freshObject{}
	}
	f := w.freshObjects[key]
	w.mu.Unlock()
	f.once.Do(func() { f.liveObject, f.err = w.create(l, spec) })
	return f
}

// newName returns a unique name of fixed length, so that no name is a prefix of another and derived names are shortened
// equally.
func (w *walk) newName(l leaf) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nameCount++
	return fmt.Sprintf("%s%05d", l.namePrefix(), w.nameCount)
}

// withoutClaimsPrefix is the name prefix of objects whose claims are not created.
const withoutClaimsPrefix = "bare-"

func (l leaf) namePrefix() string {
	if l.exceptionReason(leavesWithoutClaims) != "" {
		return withoutClaimsPrefix
	}
	return "walk-"
}

// newObject returns an object with a spec.
func (w *walk) newObject(k kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": decodeJSON(strings.ReplaceAll(toJSON(spec), namePlaceholder, name))}}
	o.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	o.SetKind(k.name)
	o.SetNamespace(w.namespace)
	o.SetName(name)
	o.SetAnnotations(map[string]string{appsapi.DefaultKeys.Trial: "true"}) // for db.rootPass
	return o
}

// create creates an object with strict validation, because an unknown field is an error of the test.
func (w *walk) create(l leaf, spec map[string]any) (liveObject, error) {
	return toLiveObject(w.client.Resource(applicationResource(l.kind.resource)).Namespace(w.namespace).
		Create(w.t.Context(), w.newObject(l.kind, w.newName(l), spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}))
}

// update replaces the spec.
func (w *walk) update(k kind, o liveObject, spec map[string]any) (liveObject, error) {
	body, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": w.newObject(k, o.name, spec).Object["spec"]}})
	if err != nil {
		return o, err
	}
	return toLiveObject(w.client.Resource(applicationResource(k.resource)).Namespace(w.namespace).
		Patch(w.t.Context(), o.name, types.JSONPatchType, body, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}))
}

func toLiveObject(o *unstructured.Unstructured, err error) (liveObject, error) {
	if err != nil {
		return liveObject{}, err
	}
	return liveObject{o.GetName(), o.GetUID(), o.GetGeneration()}, nil
}

// createReferencedObjects creates the ConfigMaps and Secrets that values reference, because their content affects the
// pod template.
func (w *walk) createReferencedObjects() {
	account := &unstructured.Unstructured{} // required to create pods
	account.SetAPIVersion("v1")
	account.SetKind("ServiceAccount")
	account.SetName("default")
	if _, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(w.namespace).
		Create(w.t.Context(), account, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	for resource, kind := range map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"} {
		for _, name := range []string{"alpha", "beta"} {
			o := &unstructured.Unstructured{}
			o.SetAPIVersion("v1")
			o.SetKind(kind)
			o.SetName(name)
			if kind == "ConfigMap" {
				o.Object["data"] = map[string]any{"alpha": name + " one", "beta": name + " two"}
			} else {
				o.Object["stringData"] = map[string]any{"alpha": name + " one", "beta": name + " two"}
			}
			if _, err := w.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: resource}).Namespace(w.namespace).
				Create(w.t.Context(), o, metav1.CreateOptions{}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
