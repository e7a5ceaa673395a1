package objdiff

import (
	"maps"
	"slices"
	"strings"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// DiffObjects returns the differences of two objects of a kind, leaf by leaf, without the name and the
// fields that only the API server writes. A nil object has no fields.
//
// Safety rule: it never returns values of Secrets or passwords. A value that contains other fields is
// never returned as a whole, because one of them could be secret.
func DiffObjects(kind string, before, after map[string]any) []FieldChange {
	changes := Diff(withoutName(before), withoutName(after), nil)
	for i := range changes {
		if c := &changes[i]; isSecretPath(kind, c.Path) {
			c.Redacted, c.Old, c.New = true, nil, nil
		}
	}
	return changes
}

// serverFields are the metadata fields that only the API server writes.
var serverFields = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"}

// WithoutServerFields returns an object without its type and without the metadata that only the API server
// writes. It shares the other values with the object.
func WithoutServerFields(object map[string]any) map[string]any {
	return without(object, serverFields)
}

func withoutName(object map[string]any) map[string]any {
	return without(object, append(slices.Clone(serverFields), "name", "namespace"))
}

func without(object map[string]any, fields []string) map[string]any {
	out := make(map[string]any, len(object))
	maps.Copy(out, object)
	delete(out, "apiVersion")
	delete(out, "kind")
	metadata, ok := out["metadata"].(map[string]any)
	if !ok {
		return out
	}
	metadata = maps.Clone(metadata)
	for _, field := range fields {
		delete(metadata, field)
	}
	if out["metadata"] = metadata; len(metadata) == 0 {
		delete(out, "metadata")
	}
	return out
}

// isSecretPath reports whether values at a path are secret. This includes annotations of objects with
// secrets, because kubectl apply and other tools store a copy of the object in them. Annotations of
// Holdfast are not secret.
func isSecretPath(kind string, at Path) bool {
	if slices.Contains(at, Step{Name: "rootPass"}) {
		return true
	}
	if kind != "Secret" && kind != "CloudManager" || len(at) == 0 {
		return false
	}
	if at[0].Name == "metadata" {
		return len(at) > 2 && at[1].Name == "annotations" && !strings.HasPrefix(at[2].Name, appsapi.GroupVersion.Group+"/")
	}
	return kind == "Secret" && at[0].Name != "type" && at[0].Name != "immutable"
}
