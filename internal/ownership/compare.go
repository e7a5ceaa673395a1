package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// listKeys are the keys by which the API server merges the lists that we write into;
// every other list is one value. A test holds them against the API's own schema, also
// those that only the overlay of a spec has.
var listKeys = map[string][]string{
	"claims":                    {"name"},
	"containers":                {"name"},
	"env":                       {"name"},
	"imagePullSecrets":          {"name"},
	"initContainers":            {"name"},
	"resourceClaims":            {"name"},
	"schedulingGates":           {"name"},
	"topologySpreadConstraints": {"topologyKey", "whenUnsatisfiable"},
	"volumeDevices":             {"devicePath"},
	"volumeMounts":              {"mountPath"},
	"volumes":                   {"name"},
}

// MergeKeys returns the keys of a list, by the name of its field; none means that it is one value. Two lists share the name
// ports: those of a container and those of a Service.
func MergeKeys(field string, element map[string]any) []string {
	if field != "ports" {
		return listKeys[field]
	}
	if _, ok := element["containerPort"]; ok {
		return []string{"containerPort", "protocol"}
	}
	return []string{"port", "protocol"}
}

// atomicMaps are the maps that the API server takes as one value: a key that somebody adds
// to the selector of a Service changes what we said. The same test holds them too.
var atomicMaps = map[string]bool{
	"selector": true, "labelSelector": true, "nodeSelector": true,
	"configMapKeyRef": true, "fieldRef": true, "fileKeyRef": true, "resourceFieldRef": true, "secretKeyRef": true,
	"secretRef": true, "nodePublishSecretRef": true, "dataSource": true,
	"requiredDuringSchedulingIgnoredDuringExecution": true,
}

// project takes from live what want has a say in: the same fields of maps, the elements
// with the same keys of lists, and what shuts out fields of ours. What is equal to want
// afterwards is held.
func project(field string, want, live any) any {
	switch w := want.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok || atomicMaps[field] {
			return live
		}
		out := make(map[string]any, len(w))
		for k, v := range w {
			if lv, ok := l[k]; ok {
				out[k] = project(k, v, lv)
			}
		}
		for _, path := range conflictsAt(field, w, l) {
			out[strings.Join(path, ".")], _, _ = unstructured.NestedFieldNoCopy(l, path...)
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
	keys := MergeKeys(field, first)
	if len(keys) == 0 {
		return live
	}
	out := make([]any, 0, len(want))
	for _, w := range want {
		for _, l := range live {
			if sameKeys(keys, w.(map[string]any), l.(map[string]any)) {
				out = append(out, project(field, w, l))
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

// Compare looks at the fields we hold outside of metadata. projected is empty when live has
// exactly what we want, and otherwise a digest of what it has instead: an admission
// webhook may insist on something else, and must not be fought for ever.
func Compare(want map[string]any, live Object) (divergence string, err error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(specOnly(live))
	if err != nil {
		return "", fmt.Errorf("read fields of %s: %w", live.GetName(), err)
	}
	got := project("", want, content)
	if reflect.DeepEqual(want, got) {
		return "", nil
	}
	return digest(got)
}

// specOnly is live without metadata and status, which nobody compares here and which would be
// turned into maps for nothing.
func specOnly(live Object) runtime.Object {
	switch o := live.(type) {
	case *appsv1.Deployment:
		return &appsv1.Deployment{Spec: o.Spec}
	case *appsv1.StatefulSet:
		return &appsv1.StatefulSet{Spec: o.Spec}
	case *corev1.Service:
		return &corev1.Service{Spec: o.Spec}
	}
	return live
}

// CompareMetadata does the same for labels, annotations and the owner.
func CompareMetadata(owner desired.Owner, config *desired.Config, live Object) (divergence string, err error) {
	if MetadataMatches(owner, config, live) {
		return "", nil
	}
	annotations := selectKeys(live.GetAnnotations(), config.Annotations())
	// A configuration has it only once it was sent.
	annotations[appsapi.AnnotationAppliedHash] = live.GetAnnotations()[appsapi.AnnotationAppliedHash]
	return digest([]any{metav1.GetControllerOfNoCopy(live), selectKeys(live.GetLabels(), config.Labels()), annotations})
}

// selectKeys are the entries of all whose keys some has.
func selectKeys(from, keys map[string]string) map[string]string {
	out := make(map[string]string, len(keys))
	for k := range keys {
		if v, ok := from[k]; ok {
			out[k] = v
		}
	}
	return out
}

func digest(content any) (string, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("read fields: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// MetadataMatches says whether labels, annotations and the owner are as we hold them.
func MetadataMatches(owner desired.Owner, config *desired.Config, live Object) bool {
	return ownerReferenceMatches(owner, live) &&
		live.GetAnnotations()[appsapi.AnnotationAppliedHash] == config.Hash() &&
		containsAll(live.GetLabels(), config.Labels()) &&
		containsAll(live.GetAnnotations(), config.Annotations())
}

// ownerReferenceMatches looks at the whole reference: the garbage collector finds the owner by kind
// and name, and our own watch does too.
func ownerReferenceMatches(owner desired.Owner, live metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(live)
	return ref != nil && ref.UID == owner.UID && ref.APIVersion == owner.APIVersion &&
		ref.Kind == owner.Kind && ref.Name == owner.Name &&
		ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion
}

func containsAll(all, subset map[string]string) bool {
	if len(subset) > len(all) {
		return false
	}
	for k, v := range maps.All(subset) {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}
