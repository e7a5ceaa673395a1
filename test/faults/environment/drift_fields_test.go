package environment

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// foreignKey is the name of a label, an annotation and a finalizer of another client.
const foreignKey = "example.com/theirs"

// fieldPath is a path from managedFields.
type fieldPath struct{ fieldpath.Path }

func (p fieldPath) valueIn(object any) any {
	for _, step := range p.Path {
		switch {
		case step.FieldName != nil:
			m, _ := object.(map[string]any)
			object = m[*step.FieldName]
		default:
			list, _ := object.([]any)
			i := slices.IndexFunc(list, func(e any) bool { return matchesElement(step, e) })
			if i < 0 {
				return nil
			}
			object = list[i]
		}
	}
	return object
}

// matchesElement reports whether a path element selects a list element.
func matchesElement(step fieldpath.PathElement, e any) bool {
	if step.Value != nil {
		return value.Equals(*step.Value, value.NewValueInterface(e))
	}
	m, ok := e.(map[string]any)
	if !ok || step.Key == nil {
		return false
	}
	for _, f := range *step.Key {
		// The API server defaults the key that is most often omitted.
		if got, ok := m[f.Name]; !ok || !value.Equals(f.Value, value.NewValueInterface(got)) {
			return false
		}
	}
	return true
}

// set changes or removes the field.
func (p fieldPath) set(object map[string]any, newValue any) {
	parent, last := fieldPath{p.Path[:len(p.Path)-1]}, p.Path[len(p.Path)-1]
	if last.FieldName != nil {
		holder, ok := parent.valueIn(object).(map[string]any)
		switch {
		case !ok:
		case newValue == nil:
			delete(holder, *last.FieldName)
		default:
			holder[*last.FieldName] = newValue
		}
		return
	}
	list, _ := parent.valueIn(object).([]any)
	parent.set(object, slices.DeleteFunc(slices.Clone(list), func(e any) bool { return matchesElement(last, e) }))
}

// drift is one manual change.
type drift struct {
	fieldPath
	value     any  // nil removes the field
	isListKey bool // the field is a key of a list element
}

func (d drift) String() string {
	text := d.Path.String()
	if strings.Contains(text, "uid=") { // differs between runs
		before, rest, _ := strings.Cut(text, "[uid=")
		_, after, _ := strings.Cut(rest, "]")
		text = before + "[ours]" + after
	}
	if d.value == nil {
		return "remove " + text
	}
	return fmt.Sprintf("set %s to %v", text, d.value)
}

func (d drift) apply(object map[string]any) { d.set(object, d.value) }

// allowTakeover permits the operator to remove the element that a changed key creates: a port with the name of the
// operator's port that another manager owns. All other drift is corrected without permission.
func (d drift) allowTakeover(obj *unstructured.Unstructured) {
	annotations := obj.GetAnnotations()
	delete(annotations, appsapi.DefaultKeys.TakeOwnership)
	if d.isListKey {
		annotations[appsapi.DefaultKeys.TakeOwnership] = "true"
	}
	obj.SetAnnotations(annotations)
}

// fieldDrifts returns changes of all fields that the operator owns according to managedFields.
func fieldDrifts(obj *unstructured.Unstructured) []drift {
	var all []drift
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != appsapi.DefaultKeys.FieldManager || entry.Subresource != "" {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			panic(err)
		}
		leaves := set.Leaves()
		set.Iterate(func(p fieldpath.Path) {
			// Objects are changed field by field, because other managers may own fields in them.
			if leaves.Has(p) || p[len(p)-1].FieldName == nil {
				all = append(all, driftsOfField(fieldPath{p.Copy()}, obj)...)
			}
		})
	}
	return all
}

func driftsOfField(p fieldPath, obj *unstructured.Unstructured) []drift {
	last := p.Path[len(p.Path)-1]
	current := p.valueIn(obj.Object)
	out := []drift{{fieldPath: p}}
	if last.FieldName == nil || current == nil {
		return out // of a list element only its removal
	}
	key := false
	if n := len(p.Path); n > 1 && p.Path[n-2].Key != nil {
		key = slices.ContainsFunc(*p.Path[n-2].Key, func(f value.Field) bool { return f.Name == *last.FieldName })
	}
	if key && *last.FieldName == "uid" {
		return nil // Kubernetes deletes objects whose owner does not exist
	}
	if p.String() == ".revision" {
		return nil // any number that is the highest is correct
	}
	if to := otherValue(p.String(), current); to != nil {
		out = append(out, drift{fieldPath: p, value: to, isListKey: key})
	}
	return out
}

// legalValues are valid values of fields for which appending "-x" is not valid.
var legalValues = map[string]any{
	".apiVersion": "v9", ".fieldPath": "metadata.name", ".cpu": "20m", ".memory": "256Mi", ".maxSurge": "30%", ".topologyKey": "example.com/rack",
	".imagePullPolicy": "IfNotPresent", ".terminationMessagePolicy": "File", ".sessionAffinity": "None", ".schedule": "0 4 1 1 *",
	".spec.type": "NodePort", ".seccompProfile.type": "Unconfined", ".concurrencyPolicy": "Allow", ".protocol": "UDP", ".restartPolicy": "OnFailure",
}

func otherValue(name string, current any) any {
	for suffix, to := range legalValues {
		if strings.HasSuffix(name, suffix) {
			return to
		}
	}
	switch v := current.(type) {
	case bool:
		return !v
	case int64:
		return v + 1
	case float64:
		return v + 1
	case string:
		return v + "-x"
	case []any:
		if len(v) > 0 {
			return append(slices.Clone(v), v[0])
		}
	}
	return nil
}

// sameValue reports whether a field has its previous value. A list element may have additional fields: a recreated port
// gets a new node port.
func sameValue(current, previous any) bool {
	w, ok := previous.(map[string]any)
	i, isMap := current.(map[string]any)
	if !ok || !isMap {
		return fmt.Sprint(current) == fmt.Sprint(previous)
	}
	for k, v := range w {
		if k != "nodePort" && !sameValue(i[k], v) {
			return false
		}
	}
	return len(w) > 0 || len(i) == 0
}

// addForeignFields adds fields of another manager.
func (d *driftTarget) addForeignFields() {
	for {
		obj, err := d.current()
		d.Expect(err).NotTo(HaveOccurred())
		labels, annotations := obj.GetLabels(), obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		labels[foreignKey], annotations[foreignKey] = "kept", "kept"
		obj.SetLabels(labels)
		obj.SetAnnotations(annotations)
		obj.SetFinalizers(append(obj.GetFinalizers(), foreignKey))
		if pods := containersPath(obj); pods != nil {
			containers, _, _ := unstructured.NestedSlice(obj.Object, pods...)
			containers = append([]any{map[string]any{"name": "theirs", "image": "theirs/sidecar:1"}}, containers...)
			d.Expect(unstructured.SetNestedSlice(obj.Object, containers, pods...)).To(Succeed())
		}
		if err = d.Update(d.Context(), obj); err == nil {
			return
		}
	}
}

// containersPath returns the path to the containers of the pod template, if it is mutable.
func containersPath(obj *unstructured.Unstructured) []string {
	switch obj.GetKind() {
	case "Deployment":
		return []string{"spec", "template", "spec", "containers"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec", "containers"}
	}
	return nil
}

// checkForeignFields checks the fields of other managers as recorded before the object was deleted.
func (d *driftTarget) checkForeignFields() {
	if d.beforeDelete == nil {
		d.failures = append(d.failures, kindAndComponent(d.object)+": did not finish")
		return
	}
	obj := d.beforeDelete
	ok := obj.GetLabels()[foreignKey] == "kept" && obj.GetAnnotations()[foreignKey] == "kept" && slices.Contains(obj.GetFinalizers(), foreignKey)
	if pods := containersPath(obj); pods != nil {
		containers, _, _ := unstructured.NestedSlice(obj.Object, pods...)
		ok = ok && slices.ContainsFunc(containers, func(c any) bool { return c.(map[string]any)["name"] == "theirs" })
	}
	if !ok {
		d.failures = append(d.failures, kindAndComponent(d.object)+": fields of other managers were removed")
	}
}
