package schemawalk

import (
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// maskRule is a value that differs between two children of the same spec, because another component
// sets it. If its presence matters, it is replaced and not removed: a leftover nodePort is
// found although its number is not compared.
type maskRule struct {
	kind, path  string // "" is every kind
	replacement any    // nil removes the value, a function converts it
	reason      string
}

const (
	reasonPerObject = "differs per object"
	reasonAllocated = "allocated by the API server; its presence is compared"
)

var maskRules = []maskRule{
	{"", "metadata.creationTimestamp", nil, reasonPerObject},
	{"", "metadata.generation", nil, reasonPerObject},
	{"", "metadata.namespace", nil, "equal for all"},
	{"", "metadata.resourceVersion", nil, reasonPerObject},
	{"", "metadata.managedFields", nil, "the entry of holdfast is compared separately"},
	{"", "metadata.annotations.apps.holdfast.dev/applied-hash", "a hash", "contains the name and the UID of the owner; its presence is compared"},
	{"", "status", nil, "not owned by Holdfast"},
	{"Service", "spec.clusterIP", "an address", reasonAllocated},
	{"Service", "spec.clusterIPs", "addresses", reasonAllocated},
	{"Service", "spec.ports[].nodePort", "a port", reasonAllocated},
	{"Deployment", "spec.replicas", "left alone", "if the spec sets no replicas, the live count is preserved"},
	{"Deployment", "owned.f:spec.f:replicas", nil, "sent with the preserved live count, so that it does not default to 1"},
	{"StatefulSet", "spec.replicas", "left alone", "if the spec sets no replicas, the live count is preserved"},
	{"StatefulSet", "owned.f:spec.f:replicas", nil, "sent with the preserved live count, so that it does not default to 1"},
	{"Deployment", refsPath, hideBindingHash, "the binding Secret of a database: each has a different password. Other Secrets and ConfigMaps are compared"},
	{"Deployment", configPath, "a hash", "includes the binding Secret; its presence is compared"},
}

const (
	refsPath   = "metadata.annotations.apps.holdfast.dev/config-refs"
	configPath = "spec.template.metadata.annotations.apps.holdfast.dev/config-hash"
)

// hideBindingHash masks the hash of the binding Secret of a database.
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

// refersToBinding reports whether an object refers to a binding Secret.
func refersToBinding(o *unstructured.Unstructured) bool {
	return strings.Contains(o.GetAnnotations()["apps.holdfast.dev/config-refs"], `-binding"`)
}

// maskHits counts how often each mask was applied.
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

// normalForm is equal for two children of the same spec: the object and the fields that Holdfast owns, without masked
// values, names and UIDs.
type normalForm struct {
	text  string
	masks []int
}

// normalize returns the normal form of a child. counted means that the spec sets the replicas.
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

// formCache caches normal forms, because new objects are compared many times.
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

// ownedFields returns the fields that Holdfast owns, in the notation of managedFields.
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

// splitPath splits a path at dots, except within the name of an annotation.
func splitPath(path string) []string {
	if at := strings.Index(path, "apps.holdfast.dev/"); at >= 0 {
		return append(strings.Split(path[:at-1], "."), path[at:])
	}
	return strings.Split(path, ".")
}

// applyMask replaces or removes a field and reports whether it existed.
func applyMask(in any, path []string, replacement any) bool {
	object, ok := in.(map[string]any)
	if !ok {
		return false
	}
	name, isList := strings.CutSuffix(path[0], listElement)
	value, exists := object[name]
	switch {
	case !exists, value == "None": // a headless Service has no cluster IP
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

// workloadsWithReplicas returns the names of the Deployments and StatefulSets whose replicas the spec sets.
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
	out[name+"-db"] = spec["db"] != nil // a database always has one replica
	return out
}
