package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
	"github.com/holdfast-dev/holdfast/internal/rollout"
	"github.com/holdfast-dev/holdfast/internal/simulate"
)

// estimate computes the result of an apply without the API server. A recreated object gets the defaults of
// the previous one.
func (d *dryRun) estimate(a simulate.Apply, body []byte) (rollout.Object, error) {
	d.markEstimated(a.ID)
	var object map[string]any
	if err := utiljson.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	for _, precondition := range []string{"uid", "resourceVersion"} {
		unstructured.RemoveNestedField(object, "metadata", precondition)
	}
	generation := int64(1)
	if live := a.Stored; live != nil {
		merged, err := fieldmanager.Merge(d.owner.Keys.FieldManager, object, live)
		if err != nil {
			return nil, err
		}
		before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return nil, err
		}
		object, generation = merged, live.GetGeneration()
		if bumpsGeneration(a.ID, before, merged) {
			generation++
		}
	}
	obj := newObject(d.client, d.owner.Namespace, a.ID)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = object
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, obj); err != nil {
		return nil, fmt.Errorf("decode planned %s %s: %w", a.ID.Kind.Kind, a.ID.Name, err)
	}
	obj.SetGeneration(generation)
	return obj, nil
}

// bumpsGeneration reports whether the change increments metadata.generation. For Deployments, annotations
// count as well as the spec.
func bumpsGeneration(id desired.ID, before, after map[string]any) bool {
	annotations := func(obj map[string]any) any {
		found, _, _ := unstructured.NestedFieldNoCopy(obj, "metadata", "annotations")
		return found
	}
	return !equality.Semantic.DeepEqual(before["spec"], after["spec"]) ||
		id.Kind == desired.KindDeployment && !equality.Semantic.DeepEqual(annotations(before), annotations(after))
}
