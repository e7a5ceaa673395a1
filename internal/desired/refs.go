package desired

import (
	"cmp"
	"encoding/json"
	"fmt"
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

// Content is what is known of the content of a Ref: its hash, and of which state of the
// object.
type Content struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	Hash            string    `json:"hash"`
}

// Contents are those of the objects that exist.
type Contents map[Ref]Content

// Refs are what the pods of a component take configuration from, if they are to be
// replaced when it changes.
func Refs(c appsapi.Component) []Ref {
	server := serverOf(c)
	if server == nil {
		return nil // a job does not run again because its configuration changed
	}
	found := keysByObject{}
	for _, b := range c.Bindings {
		if b.Secret != "" { // who keeps a password that is replaced is shut out
			found.add(RefSecret, b.Secret, "")
		}
	}
	if !rolls(server.Config) {
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

func secretsOf(refs []Ref) []string {
	var out []string
	for _, r := range refs {
		if r.Kind == RefSecret {
			out = append(out, r.Name)
		}
	}
	return out
}

// Absent are the ConfigMaps and Secrets that volumes of a component show and that do not
// exist. Volumes alone: without them no container is even tried, so nobody else tells.
func Absent(c appsapi.Component, known Contents) []Ref {
	shown := map[Ref]bool{}
	if server := serverOf(c); server != nil {
		for _, v := range server.Volumes {
			if v.ConfigMap != nil {
				shown[Ref{Kind: RefConfigMap, Name: v.ConfigMap.Name}] = true
			}
			if v.Secret != nil {
				shown[Ref{Kind: RefSecret, Name: v.Secret.Name}] = true
			}
		}
	}
	var out []Ref
	for _, ref := range Refs(c) {
		if _, exists := known[ref]; !exists && shown[Ref{Kind: ref.Kind, Name: ref.Name}] {
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

// record is one entry of AnnotationRefs.
type record struct {
	Ref
	Content
}

// Recorded are the contents that a workload was applied with.
func Recorded(live metav1.Object) Contents {
	var records []record
	// What somebody else wrote there is as good as nothing.
	_ = json.Unmarshal([]byte(live.GetAnnotations()[appsapi.AnnotationRefs]), &records)
	out := Contents{}
	for _, r := range records {
		out[r.Ref] = r.Content
	}
	return out
}

// consumed are the contents to apply a workload with. An object that is gone keeps its
// entry: pods that run must not be replaced by pods that cannot start. So does one that
// was written without a change: it is not worth a write to the workload.
func consumed(refs []Ref, known Contents, live metav1.Object) []record {
	before := Contents{}
	if live != nil {
		before = Recorded(live)
	}
	var out []record
	for _, ref := range refs {
		now, exists := known[ref]
		was, recorded := before[ref]
		switch {
		case recorded && (!exists || now.Hash == was.Hash):
			out = append(out, record{ref, was})
		case exists:
			out = append(out, record{ref, now})
		}
	}
	return out
}

// annotateRefs writes down what went into the hash of the pods, so that nobody needs to
// read it again.
func annotateRefs(meta *metav1ac.ObjectMetaApplyConfiguration, records []record) error {
	if len(records) == 0 {
		return nil
	}
	content, err := json.Marshal(records)
	if err != nil {
		return fmt.Errorf("encode references of %s: %w", *meta.Name, err)
	}
	meta.WithAnnotations(map[string]string{appsapi.AnnotationRefs: string(content)})
	return nil
}

// configHash is the hash of the configuration that pods consume. It is there also when
// there is none: adding it later would replace every pod.
func configHash(records []record) string {
	var content []byte
	for _, r := range records {
		content = append(content, r.Kind+"/"+r.Name+"/"+r.Keys+"="+r.Hash+"\n"...)
	}
	return digest(content)[:16]
}
