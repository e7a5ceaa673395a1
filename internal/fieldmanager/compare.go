package fieldmanager

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

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/ownership"
)

// atomicMaps are maps that the API server replaces as a whole: a key that another client adds to
// the selector of a Service changes our value. A test compares the list with the OpenAPI schema,
// including fields that only an overlay can set.
var atomicMaps = map[string]bool{
	"selector": true, "labelSelector": true, "nodeSelector": true,
	"configMapKeyRef": true, "fieldRef": true, "fileKeyRef": true, "resourceFieldRef": true, "secretKeyRef": true,
	"secretRef": true, "nodePublishSecretRef": true, "dataSource": true,
	"requiredDuringSchedulingIgnoredDuringExecution": true,
}

// project selects the declared part of live: the declared fields of maps, list elements with the
// same keys, and fields that conflict with declared ones. If the result equals want, live matches.
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
		for _, e := range exclusionsAt(field, w, l) {
			out[strings.Join(e.theirs, ".")], _, _ = unstructured.NestedFieldNoCopy(l, e.theirs...)
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
	keys := objdiff.MergeKeys(field, first)
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

// Compare compares the declared fields outside of metadata. divergence is empty if live matches,
// and otherwise a digest of the different values: an admission webhook may enforce other values,
// which must not be corrected forever.
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

// specOnly returns live without metadata and status, which are not compared, to save their
// conversion.
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

// CompareMetadata does the same for labels, annotations and the owner reference.
func CompareMetadata(owner desired.Owner, config *desired.Config, live Object) (divergence string, err error) {
	if MetadataMatches(owner, config, live) {
		return "", nil
	}
	annotations := selectKeys(live.GetAnnotations(), config.Annotations())
	// The configuration contains this annotation only after it was sent.
	annotations[owner.Keys.AppliedHash] = live.GetAnnotations()[owner.Keys.AppliedHash]
	return digest([]any{metav1.GetControllerOfNoCopy(live), selectKeys(live.GetLabels(), config.Labels()), annotations})
}

// selectKeys returns the entries of from whose keys are in keys.
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

// MetadataMatches reports whether labels, annotations and the owner reference match.
func MetadataMatches(owner desired.Owner, config *desired.Config, live Object) bool {
	return ownership.HasOwnerReference(owner, live) &&
		config.AppliedTo(live) &&
		containsAll(live.GetLabels(), config.Labels()) &&
		containsAll(live.GetAnnotations(), config.Annotations())
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
