package schemawalk

import (
	"encoding/json"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// masked is a value that differs between two children of the same spec, because somebody
// else chose it. Where it matters whether there is one, it is replaced and not removed: a
// nodePort that stays behind is found although its number is not compared.
type masked struct {
	kind, path string // "" is every kind
	with       any    // nil removes it, a function makes another one of it
	why        string
}

const (
	perObject = "differs from object to object"
	byServer  = "allocated by the API server; that there is one is compared"
)

var mask = []masked{
	{"", "metadata.creationTimestamp", nil, perObject},
	{"", "metadata.generation", nil, perObject},
	{"", "metadata.namespace", nil, "the same for all"},
	{"", "metadata.resourceVersion", nil, perObject},
	{"", "metadata.managedFields", nil, "those of holdfast are compared on their own"},
	{"", "metadata.annotations.apps.holdfast.dev/applied", "a hash", "a hash that the name and the UID of the owner go into; that there is one is compared"},
	{"", "status", nil, "not ours"},
	{"Service", "spec.clusterIP", "an address", byServer},
	{"Service", "spec.clusterIPs", "addresses", byServer},
	{"Service", "spec.ports[].nodePort", "a port", byServer},
	{"Deployment", "spec.replicas", "left alone", "where the spec says no replicas, the live count is left alone"},
	{"Deployment", "owned.f:spec.f:replicas", nil, "sent along where the live count is left alone, so that it does not fall to 1"},
	{"StatefulSet", "spec.replicas", "left alone", "where the spec says no replicas, the live count is left alone"},
	{"StatefulSet", "owned.f:spec.f:replicas", nil, "sent along where the live count is left alone, so that it does not fall to 1"},
	{"Deployment", refsPath, bindingOfItsOwn, "of the Secret that tells how to get into a database: each has a password of its own. Other Secrets and ConfigMaps are compared"},
	{"Deployment", configPath, "a hash", "where that Secret goes into it; that there is one is compared"},
}

const (
	refsPath   = "metadata.annotations.apps.holdfast.dev/refs"
	configPath = "spec.template.metadata.annotations.apps.holdfast.dev/config"
)

// bindingOfItsOwn hides what a Deployment knows of the binding of a database.
func bindingOfItsOwn(refs any) any {
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

// isBound says whether something refers to such a Secret.
func isBound(o *unstructured.Unstructured) bool {
	return strings.Contains(o.GetAnnotations()["apps.holdfast.dev/refs"], `-binding"`)
}

// hits counts how often each mask was needed.
type hits struct {
	mu    sync.Mutex
	count map[int]int
}

func (h *hits) add(found []int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range found {
		h.count[i]++
	}
}

// form is what makes two children of the same spec alike: the whole object and which
// fields holdfast owns in it, without what is masked and without names and UIDs.
type form struct {
	text  string
	masks []int
}

// newForm is that of a child. counted says that the spec says how many pods it has.
func newForm(o *unstructured.Unstructured, owner object, counted bool) form {
	var out form
	content := o.DeepCopy().Object
	content["owned"] = owned(o)
	for i, m := range mask {
		if m.kind != "" && m.kind != o.GetKind() || counted && strings.HasSuffix(m.path, "replicas") ||
			(m.path == refsPath || m.path == configPath) && !isBound(o) {
			continue
		}
		if hide(content, splitPath(m.path), m.with) {
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

// forms remembers them: a fresh object is looked at many times.
type forms struct {
	mu    sync.Mutex
	known map[formKey]form
}

type formKey struct {
	uid             types.UID
	resourceVersion string
	counted         bool
}

func (f *forms) of(o *unstructured.Unstructured, owner object, counted bool) form {
	key := formKey{o.GetUID(), o.GetResourceVersion(), counted}
	f.mu.Lock()
	known, ok := f.known[key]
	f.mu.Unlock()
	if ok {
		return known
	}
	known = newForm(o, owner, counted)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known[key] = known
	return known
}

// owned are the fields that holdfast owns, in the API server's own notation.
func owned(o *unstructured.Unstructured) map[string]any {
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

// hide replaces or removes a field and says whether there was one.
func hide(in any, path []string, with any) bool {
	object, ok := in.(map[string]any)
	if !ok {
		return false
	}
	name, isList := strings.CutSuffix(path[0], element)
	value, there := object[name]
	switch {
	case !there, value == "None": // a Headless Service has no address on purpose
		return false
	case isList:
		found := false
		list, _ := value.([]any)
		for _, e := range list {
			found = hide(e, path[1:], with) || found
		}
		return found
	case len(path) > 1:
		return hide(value, path[1:], with)
	case with == nil:
		delete(object, name)
	default:
		if change, ok := with.(func(any) any); ok {
			value = change(value)
		} else {
			value = with
		}
		object[name] = value
	}
	return true
}

// counted are the names of the Deployments and StatefulSets whose count of pods a spec says.
func counted(name string, spec map[string]any) map[string]bool {
	out := map[string]bool{}
	note := func(part any, called any, otherwise string) {
		holder, _ := part.(map[string]any)
		if _, says := holder["replicas"]; !says {
			return
		}
		if given, ok := called.(string); ok {
			otherwise = strings.ReplaceAll(given, myName, name)
		}
		out[otherwise] = true
	}
	note(spec, nil, name)
	components, _ := spec["components"].([]any)
	for _, c := range components {
		component := c.(map[string]any)
		for _, part := range []string{"service", "stateful"} {
			note(component[part], component["resourceName"], name+"-"+component["name"].(string))
		}
	}
	for _, c := range []string{"front", "identity"} {
		holder, _ := spec[c].(map[string]any)
		deployment, _ := holder["deployment"].(map[string]any)
		note(deployment, deployment["name"], name+"-"+c)
	}
	out[name+"-db"] = spec["db"] != nil // there is one database, always
	return out
}
