package desired

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Ref is a reference to a ConfigMap or Secret with configuration of pods.
type Ref struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Keys are the referenced keys, sorted and separated by commas; empty means all.
	Keys string `json:"keys,omitempty"`
}

// Kinds of a Ref.
const (
	RefConfigMap = "ConfigMap"
	RefSecret    = "Secret"
)

// RefState is the hash of the content of a Ref, and the version of the object that the hash was computed from.
type RefState struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// Hash is part of the hash of the pods.
	Hash string `json:"hash"`
	// KeyID identifies the HMAC key of a Secret; empty for ConfigMaps and records of earlier versions.
	KeyID string `json:"key,omitempty"`
	// Rehash is the hash with the current key if Hash was computed with a key that was lost.
	Rehash string `json:"rehash,omitempty"`
}

// content returns the hash that identifies the content.
func (c RefState) content() string { return cmp.Or(c.Rehash, c.Hash) }

// hasOtherKey reports whether two states were computed with different HMAC keys, so that they cannot be compared.
func (c RefState) hasOtherKey(other RefState) bool {
	return c.KeyID != "" && other.KeyID != "" && c.KeyID != other.KeyID
}

// RefStates are the states of existing objects.
type RefStates map[Ref]RefState

// Refs returns the references whose changes replace the pods of a component.
func Refs(c ExpandedComponent) []Ref {
	server := longRunningSpec(c)
	if server == nil {
		return nil // a job does not run again when configuration changes
	}
	found := keysByObject{}
	for _, b := range c.Bindings {
		if secret := c.BindingSecrets[b.Component]; secret != "" { // pods with the old password cannot log in
			found.addRef(RefSecret, secret, "")
		}
	}
	if !rollsOnChange(server.Config) {
		return found.toRefs()
	}
	for _, e := range server.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			found.addRef(RefConfigMap, r.Name, r.Key)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			found.addRef(RefSecret, r.Name, r.Key)
		}
	}
	for _, e := range server.EnvFrom {
		if r := e.ConfigMapRef; r != nil {
			found.addRef(RefConfigMap, r.Name, "")
		}
		if r := e.SecretRef; r != nil {
			found.addRef(RefSecret, r.Name, "")
		}
	}
	for _, v := range server.Volumes {
		if v.ConfigMap != nil {
			found.addVolume(RefConfigMap, v.ConfigMap)
		}
		if v.Secret != nil {
			found.addVolume(RefSecret, v.Secret)
		}
	}
	return found.toRefs()
}

func secretNames(refs []Ref) []string {
	var out []string
	for _, r := range refs {
		if r.Kind == RefSecret {
			out = append(out, r.Name)
		}
	}
	return out
}

// MissingRefs returns the missing ConfigMaps and Secrets that volumes of a component reference. The kubelet
// does not create a container whose volume is missing, so the status of the container does not report the cause.
func MissingRefs(c ExpandedComponent, states RefStates) []Ref {
	mounted := map[Ref]bool{}
	if server := longRunningSpec(c); server != nil {
		for _, v := range server.Volumes {
			if v.ConfigMap != nil {
				mounted[Ref{Kind: RefConfigMap, Name: v.ConfigMap.Name}] = true
			}
			if v.Secret != nil {
				mounted[Ref{Kind: RefSecret, Name: v.Secret.Name}] = true
			}
		}
	}
	var out []Ref
	for _, ref := range Refs(c) {
		if _, exists := states[ref]; !exists && mounted[Ref{Kind: ref.Kind, Name: ref.Name}] {
			out = append(out, ref)
		}
	}
	return out
}

// keysByObject are the referenced keys of each object; an empty key means all.
type keysByObject map[Ref]map[string]bool

func (k keysByObject) addRef(kind, name, key string) {
	if name == "" {
		return // the API server rejects the pods with a message that names the field
	}
	object := Ref{Kind: kind, Name: name}
	if k[object] == nil {
		k[object] = map[string]bool{}
	}
	k[object][key] = true
}

func (k keysByObject) addVolume(kind string, v *appsapi.ObjectVolume) {
	for _, item := range v.Items {
		k.addRef(kind, v.Name, item.Key)
	}
	if len(v.Items) == 0 {
		k.addRef(kind, v.Name, "")
	}
}

func (k keysByObject) toRefs() []Ref {
	var refs []Ref
	for ref, keys := range k {
		if !keys[""] {
			ref.Keys = strings.Join(slices.Sorted(maps.Keys(keys)), ",")
		}
		refs = append(refs, ref)
	}
	sortRefs(refs)
	return refs
}

func sortRefs(refs []Ref) {
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
}

// refRecord is an entry of the annotation Keys.ConfigRefs.
type refRecord struct {
	Ref
	RefState
}

// RecordedRefs returns the states that a workload was applied with.
func RecordedRefs(keys *appsapi.Keys, live metav1.Object) RefStates {
	var records []refRecord
	// An invalid value, written by another client, counts as empty.
	_ = json.Unmarshal([]byte(live.GetAnnotations()[keys.ConfigRefs]), &records)
	out := RefStates{}
	for _, r := range records {
		out[r.Ref] = r.RefState
	}
	return out
}

// ChangedRefs returns the objects with other content in the later version of a workload than in the earlier
// one.
func ChangedRefs(keys *appsapi.Keys, before, after metav1.Object) []Ref {
	was := RecordedRefs(keys, before)
	var out []Ref
	for ref, state := range RecordedRefs(keys, after) {
		if was[ref].Hash != state.Hash {
			out = append(out, ref)
		}
	}
	sortRefs(out)
	return out
}

// consumedRefs returns the states to apply a workload with. A deleted object keeps its recorded state: running
// pods must not be replaced by pods that cannot start. If an object has a new version but the same content,
// the recorded state is kept, which saves a write. If the HMAC key was lost, the content counts as unchanged: it
// cannot be compared, and all pods with Secrets would be replaced at once.
func consumedRefs(keys *appsapi.Keys, refs []Ref, states RefStates, live metav1.Object) []refRecord {
	previous := RefStates{}
	if live != nil {
		previous = RecordedRefs(keys, live)
	}
	var out []refRecord
	for _, ref := range refs {
		now, exists := states[ref]
		was, recorded := previous[ref]
		switch {
		case recorded && (!exists || now.content() == was.content()):
			out = append(out, refRecord{ref, was})
		case recorded && now.hasOtherKey(was):
			out = append(out, refRecord{ref, RefState{UID: now.UID, ResourceVersion: now.ResourceVersion, Hash: was.Hash, KeyID: now.KeyID, Rehash: now.content()}})
		case exists:
			out = append(out, refRecord{ref, now})
		}
	}
	return out
}

// annotateRefs records the states that are part of the pod hash, so that the objects are not read again.
func annotateRefs(keys *appsapi.Keys, meta *metav1ac.ObjectMetaApplyConfiguration, records []refRecord) {
	if len(records) == 0 {
		return
	}
	content, _ := json.Marshal(records) // strings can always be encoded
	meta.WithAnnotations(map[string]string{keys.ConfigRefs: string(content)})
}

// configHash returns the hash of the configuration that pods consume. It is also set without any configuration,
// because adding it later would replace the pods.
func configHash(records []refRecord) string {
	var content []byte
	for _, r := range records {
		content = append(content, r.Kind+"/"+r.Name+"/"+r.Keys+"="+r.Hash+"\n"...)
	}
	return digest(content)[:16]
}
