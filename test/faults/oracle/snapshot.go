// Package oracle judges what an operator did, from what an independent watch saw and from
// the audit log of the API server. It knows the API of Holdfast and nothing of how the
// operator works.
//
// Safety rule: an oracle that cannot decide says that something is wrong.
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

// Snapshot is what there is in a namespace: by the name of each object its fields, each as a
// path and a value. Names that are drawn by chance are replaced by what they stand for.
type Snapshot map[string]map[string]string

// NewSnapshot reads objects of one namespace.
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
				value = "$TIME" // of two runs it may be the same by chance
			}
			fields[known.Replace(path)] = known.Replace(value)
		})
		state[names[o.GetUID()]] = fields
	}
	return state
}

// isGeneratedByKubernetes says that something is made by Kubernetes alone, at moments of its own: a
// ConfigMap that everybody has, and the books of a StatefulSet, which its controller may write
// once more while the set is going.
func isGeneratedByKubernetes(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ConfigMap" && o.GetName() == "kube-root-ca.crt" ||
		o.GetKind() == "ControllerRevision" && o.GetLabels()["controller.kubernetes.io/hash"] != ""
}

// normalize drops the times of the books and gives their entries names.
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

// isVolumeControllerWrite says that somebody wrote to a claim who asks for a volume for it, unless that is
// there already: it depends on who is faster.
func isVolumeControllerWrite(o *unstructured.Unstructured, manager string) bool {
	return o.GetKind() == "PersistentVolumeClaim" && manager == "kube-controller-manager"
}

// comparableFields are the fields of an entry. That a claim has annotations at all is booked on whoever wrote
// the first, which again depends on who is faster.
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
			panic(err) // it came from JSON
		}
		leaf(path, string(text))
	}
}

// elementName names a condition by its type, anything else by its place.
func elementName(i int, child any) string {
	if m, ok := child.(map[string]any); ok && m["status"] != nil {
		if t, ok := m["type"].(string); ok {
			return t
		}
	}
	return fmt.Sprint(i)
}

// Reference is what clean runs have in common.
type Reference struct {
	states []Snapshot
	// mask has the fields, by kind and path, that differ between clean runs.
	mask map[string]bool
}

// What counts or names every object: it differs by nature, also where by chance it did not.
var alwaysMasked = []string{".metadata.resourceVersion", ".metadata.uid"}

// Learn compares clean runs. They must agree on which objects there are.
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

// Masked are the fields that are not compared, by kind and path.
func (r Reference) Masked() []string { return slices.Sorted(maps.Keys(r.mask)) }

// ShareMasks makes references of several moments share what they do not compare: what differs at
// one moment may differ at all, and so may these fields, by kind and path.
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

// Diff says in lines how a state differs from the reference.
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
					lines = append(lines, fmt.Sprintf("%s%s is %q, in a clean run %q", name, path, b, a))
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
