package schemawalk

import (
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// maskRule is a value that differs between two children of the same spec, because somebody
// else chose it. Where it matters whether there is one, it is replaced and not removed: a
// nodePort that stays behind is found although its number is not compared.
type maskRule struct {
	kind, path  string // "" is every kind
	replacement any    // nil removes it, a function makes another one of it
	reason      string
}

const (
	reasonPerObject = "differs from object to object"
	reasonAllocated = "allocated by the API server; that there is one is compared"
)

var maskRules = []maskRule{
	{"", "metadata.creationTimestamp", nil, reasonPerObject},
	{"", "metadata.generation", nil, reasonPerObject},
	{"", "metadata.namespace", nil, "the same for all"},
	{"", "metadata.resourceVersion", nil, reasonPerObject},
	{"", "metadata.managedFields", nil, "those of holdfast are compared on their own"},
	{"", "metadata.annotations.apps.holdfast.dev/applied-hash", "a hash", "a hash that the name and the UID of the owner go into; that there is one is compared"},
	{"", "status", nil, "not ours"},
	{"Service", "spec.clusterIP", "an address", reasonAllocated},
	{"Service", "spec.clusterIPs", "addresses", reasonAllocated},
	{"Service", "spec.ports[].nodePort", "a port", reasonAllocated},
	{"Deployment", "spec.replicas", "left alone", "where the spec says no replicas, the live count is left alone"},
	{"Deployment", "owned.f:spec.f:replicas", nil, "sent along where the live count is left alone, so that it does not fall to 1"},
	{"StatefulSet", "spec.replicas", "left alone", "where the spec says no replicas, the live count is left alone"},
	{"StatefulSet", "owned.f:spec.f:replicas", nil, "sent along where the live count is left alone, so that it does not fall to 1"},
	{"Deployment", refsPath, hideBindingHash, "of the Secret that tells how to get into a database: each has a password of its own. Other Secrets and ConfigMaps are compared"},
	{"Deployment", configPath, "a hash", "where that Secret goes into it; that there is one is compared"},
}

const (
	refsPath   = "metadata.annotations.apps.holdfast.dev/config-refs"
	configPath = "spec.template.metadata.annotations.apps.holdfast.dev/config-hash"
)

// hideBindingHash hides what a Deployment knows of the binding of a database.
func hideBindingHash(refs any) any {
	var all []map[string]any
	text, _ := refs.(string)
	if json.Unmarshal([]byte(text), &all) != nil {
		return refs
	}
	for _, ref := range all {
		if name, _ := ref["name"].(string); strings.HasSuffix(name, "-binding") {
			ref["uid"], ref["resourceVersion"], ref["hash"] = "", "", "of its own"
		}
	}
	return all
}

// refersToBinding says whether something refers to such a Secret.
func refersToBinding(o *unstructured.Unstructured) bool {
	return strings.Contains(o.GetAnnotations()["apps.holdfast.dev/config-refs"], `-binding"`)
}

// maskHits counts how often each mask was needed.
type maskHits struct {
	mu    sync.Mutex
	count map[int]int
}

func (h *maskHits) add(found []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range found {
		h.count[i]++
	}
}

// normalForm is what makes two children of the same spec alike: the whole object and which
// fields holdfast owns in it, without what is masked and without names and UIDs.
type normalForm struct {
	text  string
	masks []int
}

// normalize is that of a child. counted says that the spec says how many pods it has.
func normalize(o *unstructured.Unstructured, owner liveObject, replicasSet bool) normalForm {
	var out normalForm
	content := o.DeepCopy().Object
	content["owned"] = ownedFields(o)
	for i, m := range maskRules {
		if m.kind != "" && m.kind != o.GetKind() || replicasSet && strings.HasSuffix(m.path, "replicas") ||
			(m.path == refsPath || m.path == configPath) && !refersToBinding(o) {
			continue
		}
		if applyMask(content, splitPath(m.path), m.replacement) {
			out.masks = append(out.masks, i)
		}
	}
	indented, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		panic(err)
	}
	names := strings.NewReplacer(string(owner.uid), "OWNER", string(o.GetUID()), "UID", owner.name, "NAME")
	out.text = names.Replace(string(indented))
	return out
}

// formCache remembers them: a fresh object is looked at many times.
type formCache struct {
	mu    sync.Mutex
	known map[formKey]normalForm
}

type formKey struct {
	uid             types.UID
	resourceVersion string
	replicasSet     bool
}

func (f *formCache) get(o *unstructured.Unstructured, owner liveObject, replicasSet bool) normalForm {
	key := formKey{o.GetUID(), o.GetResourceVersion(), replicasSet}
	f.mu.Lock()
	known, ok := f.known[key]
	f.mu.Unlock()
	if ok {
		return known
	}
	known = normalize(o, owner, replicasSet)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[key] = known
	return known
}

// ownedFields are the fields that holdfast owns, in the API server's own notation.
func ownedFields(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{}
	for _, entry := range o.GetManagedFields() {
		if entry.Manager != "holdfast" || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &out); err != nil {
			panic(err)
		}
	}
	return out
}

// splitPath splits at dots, apart from those of the name of an annotation.
func splitPath(path string) []string {
	if at := strings.Index(path, "apps.holdfast.dev/"); at >= 0 {
		return append(strings.Split(path[:at-1], "."), path[at:])
	}
	return strings.Split(path, ".")
}

// applyMask replaces or removes a field and says whether there was one.
func applyMask(in any, path []string, replacement any) bool {
	object, ok := in.(map[string]any)
	if !ok {
		return false
	}
	name, isList := strings.CutSuffix(path[0], listElement)
	value, exists := object[name]
	switch {
	case !exists, value == "None": // a Headless Service has no address on purpose
		return false
	case isList:
		found := false
		list, _ := value.([]any)
		for _, e := range list {
			found = applyMask(e, path[1:], replacement) || found
		}
		return found
	case len(path) > 1:
		return applyMask(value, path[1:], replacement)
	case replacement == nil:
		delete(object, name)
	default:
		if change, ok := replacement.(func(any) any); ok {
			value = change(value)
		} else {
			value = replacement
		}
		object[name] = value
	}
	return true
}

// workloadsWithReplicas are the names of the Deployments and StatefulSets whose count of pods a spec says.
func workloadsWithReplicas(name string, spec map[string]any) map[string]bool {
	out := map[string]bool{}
	addIfSet := func(part any, resourceName any, workload string) {
		fields, _ := part.(map[string]any)
		if _, isSet := fields["replicas"]; !isSet {
			return
		}
		if named, ok := resourceName.(string); ok {
			workload = strings.ReplaceAll(named, namePlaceholder, name)
		}
		out[workload] = true
	}
	addIfSet(spec, nil, name)
	components, _ := spec["components"].([]any)
	for _, c := range components {
		component := c.(map[string]any)
		for _, part := range []string{"service", "stateful"} {
			addIfSet(component[part], component["resourceName"], name+"-"+component["name"].(string))
		}
	}
	for _, c := range []string{"front", "identity"} {
		fields, _ := spec[c].(map[string]any)
		deployment, _ := fields["deployment"].(map[string]any)
		addIfSet(deployment, deployment["name"], name+"-"+c)
	}
	out[name+"-db"] = spec["db"] != nil // there is one database, always
	return out
}
