package simulate

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// equalSpec says whether two states of an object are equal in what people and we decide.
func equalSpec(a, b rollout.Object) bool {
	x, errX := StripServerFields(a)
	y, errY := StripServerFields(b)
	return errX == nil && errY == nil && equality.Semantic.DeepEqual(x, y)
}

// StripServerFields is an object without its status and what the API server alone writes about it.
func StripServerFields(obj rollout.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	delete(all, "status")
	delete(all, "apiVersion")
	delete(all, "kind")
	if metadata, ok := all["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"} {
			delete(metadata, field)
		}
	}
	return all, nil
}
