package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// get returns nil if the object does not exist.
func (a *Applier) get(ctx context.Context, reader client.Reader, namespace string, id desired.ID) (client.Object, error) {
	obj, err := a.newObject(namespace, id)
	if err != nil {
		return nil, err
	}
	err = reader.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s/%s: %w", id.Kind.Kind, namespace, id.Name, err)
	}
	return obj, nil
}

// newObject returns an empty object of a kind, unstructured if the scheme does not know the kind.
func (a *Applier) newObject(namespace string, id desired.ID) (client.Object, error) {
	var obj client.Object = &unstructured.Unstructured{}
	obj.GetObjectKind().SetGroupVersionKind(id.Kind)
	if a.writer.Scheme().Recognizes(id.Kind) {
		instance, err := a.writer.Scheme().New(id.Kind)
		if err != nil {
			return nil, err
		}
		typed, ok := instance.(client.Object)
		if !ok {
			return nil, fmt.Errorf("%s is not an object", id.Kind)
		}
		obj = typed
	}
	obj.SetNamespace(namespace)
	obj.SetName(id.Name)
	return obj, nil
}
