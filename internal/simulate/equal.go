package simulate

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// equalSpec reports whether two states of an object are equal except for fields that the API server sets.
func equalSpec(a, b rollout.Object) bool {
	x, errX := StripServerFields(a)
	y, errY := StripServerFields(b)
	return errX == nil && errY == nil && equality.Semantic.DeepEqual(x, y)
}

// StripServerFields returns an object without status and metadata that the API server sets.
func StripServerFields(obj rollout.Object) (map[string]any, error) {
	all, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	all = objdiff.WithoutServerFields(all)
	delete(all, "status")
	return all, nil
}
