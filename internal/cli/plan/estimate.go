package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/ownership"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// estimate says what an object would become without asking the API server. One that is made
// anew gets the same defaults as the one before.
func (d *dryRun) estimate(id desired.ID, body []byte) (rollout.Object, error) {
	d.estimated[id] = true
	var object map[string]any
	if err := utiljson.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	for _, precondition := range []string{"uid", "resourceVersion"} {
		unstructured.RemoveNestedField(object, "metadata", precondition)
	}
	generation := int64(1)
	if live := d.live[id]; live != nil {
		merged, err := ownership.Merge(object, live)
		if err != nil {
			return nil, err
		}
		before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
		if err != nil {
			return nil, err
		}
		object, generation = merged, live.GetGeneration()
		if bumpsGeneration(id, before, merged) {
			generation++
		}
	}
	obj := newObject(d.client, d.owner.Namespace, id)
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.Object = object
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, obj); err != nil {
		return nil, fmt.Errorf("read what %s %s would be: %w", id.Kind.Kind, id.Name, err)
	}
	obj.SetGeneration(generation)
	return obj, nil
}

// bumpsGeneration says whether the API server would give an object a new generation, which its
// controller has yet to see: of a Deployment annotations count, too.
func bumpsGeneration(id desired.ID, before, after map[string]any) bool {
	annotations := func(obj map[string]any) any {
		found, _, _ := unstructured.NestedFieldNoCopy(obj, "metadata", "annotations")
		return found
	}
	return !equality.Semantic.DeepEqual(before["spec"], after["spec"]) ||
		id.Kind == desired.KindDeployment && !equality.Semantic.DeepEqual(annotations(before), annotations(after))
}
