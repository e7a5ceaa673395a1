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

// Ref is a ConfigMap or Secret that pods take configuration from.
type Ref struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Keys are the keys that they take, sorted and separated by commas; none means all.
	Keys string `json:"keys,omitempty"`
}

// The kinds of a Ref.
const (
	RefConfigMap = "ConfigMap"
	RefSecret    = "Secret"
)

// RefState is what is known of the content of a Ref: its hash, and of which state of the
// object.
type RefState struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Hash            string    `json:"hash"`
}

// RefStates are those of the objects that exist.
type RefStates map[Ref]RefState

// Refs are what the pods of a component take configuration from, if they are to be
// replaced when it changes.
func Refs(c appsapi.Component) []Ref {
	server := serverSpec(c)
	if server == nil {
		return nil // a job does not run again because its configuration changed
	}
	found := keysByObject{}
	for _, b := range c.Bindings {
		if b.Secret != "" { // who keeps a password that is replaced is shut out
			found.add(RefSecret, b.Secret, "")
		}
	}
	if !rollsOnChange(server.Config) {
		return found.refs()
	}
	for _, e := range server.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			found.add(RefConfigMap, r.Name, r.Key)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			found.add(RefSecret, r.Name, r.Key)
		}
	}
	for _, e := range server.EnvFrom {
		if r := e.ConfigMapRef; r != nil {
			found.add(RefConfigMap, r.Name, "")
		}
		if r := e.SecretRef; r != nil {
			found.add(RefSecret, r.Name, "")
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
	return found.refs()
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

// MissingRefs are the ConfigMaps and Secrets that volumes of a component show and that do not
// exist. Volumes alone: without them no container is even tried, so nobody else tells.
func MissingRefs(c appsapi.Component, states RefStates) []Ref {
	mounted := map[Ref]bool{}
	if server := serverSpec(c); server != nil {
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

// keysByObject collects the keys that are taken of each object; the empty one is all.
type keysByObject map[Ref]map[string]bool

func (k keysByObject) add(kind, name, key string) {
	if name == "" {
		return // the API server refuses the pods, in words that name the field
	}
	object := Ref{Kind: kind, Name: name}
	if k[object] == nil {
		k[object] = map[string]bool{}
	}
	k[object][key] = true
}

func (k keysByObject) addVolume(kind string, v *appsapi.ObjectVolume) {
	for _, item := range v.Items {
		k.add(kind, v.Name, item.Key)
	}
	if len(v.Items) == 0 {
		k.add(kind, v.Name, "")
	}
}

func (k keysByObject) refs() []Ref {
	var refs []Ref
	for ref, keys := range k {
		if !keys[""] {
			ref.Keys = strings.Join(slices.Sorted(maps.Keys(keys)), ",")
		}
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return refs
}

// refRecord is one entry of AnnotationConfigRefs.
type refRecord struct {
	Ref
	RefState
}

// RecordedRefs are the contents that a workload was applied with.
func RecordedRefs(live metav1.Object) RefStates {
	var records []refRecord
	// What somebody else wrote there is as good as nothing.
	_ = json.Unmarshal([]byte(live.GetAnnotations()[appsapi.AnnotationConfigRefs]), &records)
	out := RefStates{}
	for _, r := range records {
		out[r.Ref] = r.RefState
	}
	return out
}

// consumedRefs are the contents to apply a workload with. An object that is gone keeps its
// entry: pods that run must not be replaced by pods that cannot start. So does one that
// was written without a change: it is not worth a write to the workload.
func consumedRefs(refs []Ref, states RefStates, live metav1.Object) []refRecord {
	previous := RefStates{}
	if live != nil {
		previous = RecordedRefs(live)
	}
	var out []refRecord
	for _, ref := range refs {
		now, exists := states[ref]
		was, recorded := previous[ref]
		switch {
		case recorded && (!exists || now.Hash == was.Hash):
			out = append(out, refRecord{ref, was})
		case exists:
			out = append(out, refRecord{ref, now})
		}
	}
	return out
}

// annotateRefs writes down what went into the hash of the pods, so that nobody needs to
// read it again.
func annotateRefs(meta *metav1ac.ObjectMetaApplyConfiguration, records []refRecord) {
	if len(records) == 0 {
		return
	}
	content, _ := json.Marshal(records) // strings can always be encoded
	meta.WithAnnotations(map[string]string{appsapi.AnnotationConfigRefs: string(content)})
}

// configHash is the hash of the configuration that pods consume. It is there also when
// there is none: adding it later would replace every pod.
func configHash(records []refRecord) string {
	var content []byte
	for _, r := range records {
		content = append(content, r.Kind+"/"+r.Name+"/"+r.Keys+"="+r.Hash+"\n"...)
	}
	return digest(content)[:16]
}
