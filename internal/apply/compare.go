package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// listKeys are the keys by which the API server merges the lists that we write into;
// every other list is one value. A test holds them against the API's own schema.
var listKeys = map[string][]string{
	"containers":                {"name"},
	"env":                       {"name"},
	"imagePullSecrets":          {"name"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
}

// keysOf returns the keys of a list, by the name of its field. Two lists share the name
// ports: those of a container and those of a Service.
func keysOf(field string, element map[string]any) []string {
	if field != "ports" {
		return listKeys[field]
	}
	if _, ok := element["containerPort"]; ok {
		return []string{"containerPort", "protocol"}
	}
	return []string{"port", "protocol"}
}

// project takes from live what want has a say in: the same fields of maps, the elements
// with the same keys of lists. What is equal to want afterwards is held.
func project(field string, want, live any) any {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return live
		}
		out := make(map[string]any, len(w))
		for k, v := range w {
			if lv, ok := l[k]; ok {
				out[k] = project(k, v, lv)
			}
		}
		return out
	case []any:
		l, ok := live.([]any)
		if !ok {
			return live
		}
		return projectList(field, w, l)
	}
	return live
}

func projectList(field string, want, live []any) any {
	first, ok := want[0].(map[string]any)
	if !ok {
		return live
	}
	keys := keysOf(field, first)
	if len(keys) == 0 {
		return live
	}
	out := make([]any, 0, len(want))
	for _, w := range want {
		for _, l := range live {
			if sameKeys(keys, w.(map[string]any), l.(map[string]any)) {
				out = append(out, project("", w, l))
				break
			}
		}
	}
	return out
}

func sameKeys(keys []string, a, b map[string]any) bool {
	for _, k := range keys {
		if a[k] != b[k] {
			return false
		}
	}
	return true
}

// compare looks at the fields we hold outside of metadata. projected is empty when live has
// exactly what we want, and otherwise a digest of what it has instead: an admission
// webhook may insist on something else, and must not be fought for ever.
func compare(want map[string]any, live client.Object) (projected string, err error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return "", fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	got := project("", want, all)
	if reflect.DeepEqual(want, got) {
		return "", nil
	}
	content, err := json.Marshal(got)
	if err != nil {
		return "", fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// metadataHeld says whether labels, annotations and the owner are as we hold them.
func metadataHeld(owner desired.Owner, config *desired.Config, live client.Object) bool {
	return metav1.IsControlledBy(live, &metav1.ObjectMeta{UID: owner.UID}) &&
		live.GetAnnotations()[appsapi.AnnotationApplied] == config.Hash() &&
		contains(live.GetLabels(), config.Labels()) &&
		contains(live.GetAnnotations(), config.Annotations())
}

func contains(all, some map[string]string) bool {
	if len(some) > len(all) {
		return false
	}
	for k, v := range maps.All(some) {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}
