package plan

import (
	"encoding/json"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// estimateCreate computes the application that the API server would create.
func estimateCreate(manifest *unstructured.Unstructured, a declaredApp) *unstructured.Unstructured {
	created := manifest.DeepCopy()
	created.SetUID(a.owner.UID)
	created.SetGeneration(1)
	setDefaults(created.Object["spec"])
	return created
}

// estimatePatch computes the application that the API server would store after a merge patch.
func estimatePatch(live *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	changed := &unstructured.Unstructured{}
	if err := changed.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	setDefaults(changed.Object["spec"])
	if !equality.Semantic.DeepEqual(live.Object["spec"], changed.Object["spec"]) {
		changed.SetGeneration(live.GetGeneration() + 1)
	}
	return changed, nil
}

// setDefaults sets the only default of the CustomResourceDefinitions: the protocol of ports. The API server
// sets no defaults in a podTemplateOverlay.
func setDefaults(value any) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			setDefaults(item)
		}
	case map[string]any:
		for field, item := range v {
			if field == "podTemplateOverlay" {
				continue
			}
			ports, _ := item.([]any)
			for _, port := range ports {
				if p, ok := port.(map[string]any); ok && field == "ports" && p["protocol"] == nil {
					p["protocol"] = string(corev1.ProtocolTCP)
				}
			}
			setDefaults(item)
		}
	}
}
