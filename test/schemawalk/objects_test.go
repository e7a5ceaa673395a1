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
)

// fresh is an object that was created with a spec and never changed. Many steps end in
// the same spec; they share it.
type fresh struct {
	once sync.Once
	object
	err error
}

// trouble is why it cannot be compared with, or "".
func (f *fresh) trouble(v *view) string {
	if f.err != nil {
		return "the fresh object: " + f.err.Error()
	}
	if trouble := v.ready(f.name, f.generation); trouble != "" {
		return "the fresh object: " + trouble
	}
	return ""
}

func (w *walk) freshOf(l leaf, spec map[string]any) *fresh {
	key := l.kind.name + l.prefix() + text(spec)
	w.mu.Lock()
	if w.fresh[key] == nil {
		w.fresh[key] = &fresh{}
	}
	f := w.fresh[key]
	w.mu.Unlock()
	f.once.Do(func() { f.object, f.err = w.create(l, spec) })
	return f
}

// name is a new one, always of the same length: no name is part of another, and what is
// made of one is shortened alike.
func (w *walk) name(l leaf) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	return fmt.Sprintf("%s%05d", l.prefix(), w.names)
}

// withoutClaims begins the names of the objects whose claims nobody makes.
const withoutClaims = "bare-"

func (l leaf) prefix() string {
	if l.among(unclaimed) != "" {
		return withoutClaims
	}
	return "walk-"
}

// make is an object with a spec.
func (w *walk) make(k kind, name string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": decode(strings.ReplaceAll(text(spec), myName, name))}}
	o.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	o.SetKind(k.name)
	o.SetNamespace(w.namespace)
	o.SetName(name)
	return o
}

// create creates an object; a field that the schema does not have is a mistake of ours.
func (w *walk) create(l leaf, spec map[string]any) (object, error) {
	return seen(w.client.Resource(ours(l.kind.resource)).Namespace(w.namespace).
		Create(w.t.Context(), w.make(l.kind, w.name(l), spec), metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}))
}

// update replaces the whole spec.
func (w *walk) update(k kind, o object, spec map[string]any) (object, error) {
	body, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/spec", "value": w.make(k, o.name, spec).Object["spec"]}})
	if err != nil {
		return o, err
	}
	return seen(w.client.Resource(ours(k.resource)).Namespace(w.namespace).
		Patch(w.t.Context(), o.name, types.JSONPatchType, body, metav1.PatchOptions{FieldValidation: metav1.FieldValidationStrict}))
}

func seen(o *unstructured.Unstructured, err error) (object, error) {
	if err != nil {
		return object{}, err
	}
	return object{o.GetName(), o.GetUID(), o.GetGeneration()}, nil
}

// referred makes the ConfigMaps and Secrets that values name: their content is part of
// what pods are made of.
func (w *walk) referred() {
	account := &unstructured.Unstructured{} // without which no pod is admitted
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
