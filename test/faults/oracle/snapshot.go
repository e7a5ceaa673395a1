// Package oracle checks the actions of an operator with an independent watch and the audit log of the API server. It
// knows the Holdfast API, but not the implementation of the operator.
//
// Safety rule: an oracle that cannot decide reports a violation.
package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Snapshot maps the objects of a namespace to their fields, each a path and a value. Generated names are replaced by
// stable ones.
type Snapshot map[string]map[string]string

// NewSnapshot converts the objects of one namespace.
func NewSnapshot(namespace string, objects []*unstructured.Unstructured) Snapshot {
	names := stableNames(objects)
	replace := []string{namespace, "$NS"}
	for uid, name := range names {
		replace = append(replace, string(uid), "$UID("+name+")")
	}
	known := strings.NewReplacer(replace...)
	state := Snapshot{}
	for _, o := range objects {
		if isGeneratedByKubernetes(o) {
			continue
		}
		fields := map[string]string{}
		flatten("", normalize(o), func(path, value string) {
			if _, err := time.Parse(time.RFC3339, value); err == nil {
				value = "$TIME" // may be equal in two runs by chance
			}
			fields[known.Replace(path)] = known.Replace(value)
		})
		state[names[o.GetUID()]] = fields
	}
	return state
}

// isGeneratedByKubernetes reports whether Kubernetes creates an object at an unpredictable time: the root CA ConfigMap,
// and ControllerRevisions of a StatefulSet, which its controller may write once more during deletion.
func isGeneratedByKubernetes(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt" ||
		o.GetKind() == "ControllerRevision" && o.GetLabels()["controller.kubernetes.io/hash"] != ""
}

// normalize drops the timestamps of managedFields and keys its entries by manager.
func normalize(o *unstructured.Unstructured) map[string]any {
	content := maps.Clone(o.Object)
	metadata := maps.Clone(content["metadata"].(map[string]any))
	content["metadata"] = metadata
	managedFields := map[string]any{}
	for _, entry := range o.GetManagedFields() {
		if isVolumeControllerWrite(o, entry.Manager) {
			continue
		}
		name := fmt.Sprintf("%s %s %s", entry.Manager, entry.Operation, entry.Subresource)
		if entry.FieldsV1 != nil {
			managedFields[name] = comparableFields(o, entry)
		}
	}
	metadata["managedFields"] = managedFields
	if o.GetKind() == "PersistentVolumeClaim" {
		annotations := map[string]any{}
		for key, value := range o.GetAnnotations() {
			if !strings.Contains(key, "kubernetes.io/storage-provisioner") {
				annotations[key] = value
			}
		}
		metadata["annotations"] = annotations
	}
	return content
}

// isVolumeControllerWrite reports whether an entry is from the volume controller. Whether it writes a claim depends on a
// race.
func isVolumeControllerWrite(o *unstructured.Unstructured, manager string) bool {
	return o.GetKind() == "PersistentVolumeClaim" && manager == "kube-controller-manager"
}

// comparableFields returns the fields of an entry, without the ownership of the annotations map, which depends on which
// manager writes the first annotation.
func comparableFields(o *unstructured.Unstructured, entry metav1.ManagedFieldsEntry) string {
	raw := entry.FieldsV1.GetRawString()
	if o.GetKind() == "PersistentVolumeClaim" {
		raw = strings.Replace(raw, `"f:annotations":{".":{},`, `"f:annotations":{`, 1)
	}
	return raw
}

func flatten(path string, value any, leaf func(path, value string)) {
	switch v := value.(type) {
	case map[string]any:
		for k, child := range v {
			flatten(path+"."+k, child, leaf)
		}
	case []any:
		for i, child := range v {
			flatten(fmt.Sprintf("%s[%s]", path, elementName(i, child)), child, leaf)
		}
	case string:
		leaf(path, v)
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // decoded from JSON
		}
		leaf(path, string(text))
	}
}

// elementName names a condition by its type, any other element by its index.
func elementName(i int, child any) string {
	if m, ok := child.(map[string]any); ok && m["status"] != nil {
		if t, ok := m["type"].(string); ok {
			return t
		}
	}
	return fmt.Sprint(i)
}

// Reference is the common state of clean runs.
type Reference struct {
	states []Snapshot
	// mask contains the fields, by kind and path, that differ between clean runs.
	mask map[string]bool
}

// alwaysMasked are fields that differ between runs even if they are equal by chance.
var alwaysMasked = []string{".metadata.resourceVersion", ".metadata.uid"}

// Learn compares clean runs. They must have the same objects.
func Learn(states ...Snapshot) (Reference, error) {
	r := Reference{states: states, mask: map[string]bool{}}
	for name := range states[0] {
		for _, path := range alwaysMasked {
			r.mask[kindOf(name)+path] = true
		}
	}
	for _, s := range states[1:] {
		if a, b := slices.Sorted(maps.Keys(states[0])), slices.Sorted(maps.Keys(s)); !slices.Equal(a, b) {
			return r, fmt.Errorf("clean runs end with different objects:\n%s\n%s", strings.Join(a, " "), strings.Join(b, " "))
		}
		for name, fields := range s {
			for path := range unionKeys(states[0][name], fields) {
				if before, ok := states[0][name][path]; !ok || before != fields[path] || !hasKey(fields, path) {
					r.mask[kindOf(name)+path] = true
				}
			}
		}
	}
	return r, nil
}

// Masked returns the fields that are not compared, by kind and path.
func (r Reference) Masked() []string { return slices.Sorted(maps.Keys(r.mask)) }

// ShareMasks masks in all references the fields that one of them masks, and these fields by kind and path: a field that
// differs at one point can differ at any.
func ShareMasks(references []Reference, fields ...string) {
	all := map[string]bool{}
	for _, f := range fields {
		all[f] = true
	}
	for _, r := range references {
		maps.Copy(all, r.mask)
	}
	for i := range references {
		references[i].mask = all
	}
}

// Diff returns the differences to the reference.
func (r Reference) Diff(got Snapshot) []string {
	want := r.states[0]
	var lines []string
	for name := range unionKeys(want, got) {
		switch {
		case want[name] == nil:
			lines = append(lines, name+" should not exist")
		case got[name] == nil:
			lines = append(lines, name+" is missing")
		default:
			for path := range unionKeys(want[name], got[name]) {
				if a, b := want[name][path], got[name][path]; a != b && !r.mask[kindOf(name)+path] {
					lines = append(lines, fmt.Sprintf("%s%s is %q, want %q", name, path, b, a))
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func kindOf(name string) string {
	kind, _, _ := strings.Cut(name, "/")
	return kind
}

func hasKey(m map[string]string, k string) bool {
	_, ok := m[k]
	return ok
}

func unionKeys[V any](a, b map[string]V) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

func controllerOf(o *unstructured.Unstructured) metav1.OwnerReference {
	if ref := metav1.GetControllerOf(o); ref != nil {
		return *ref
	}
	return metav1.OwnerReference{}
}
