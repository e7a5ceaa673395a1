package actions

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/holdfast-dev/holdfast/internal/redact"
)

// ObjectOptions configures Object.
type ObjectOptions struct {
	// ManagedFields includes metadata.managedFields.
	ManagedFields bool
}

// Object gets one object of any kind and redacts values that may be secret. For a Secret it requests only
// the metadata.
func (c *Caller) Object(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, o ObjectOptions) (map[string]any, error) {
	ref := Ref{Kind: resource.Resource, Namespace: namespace, Name: name}
	parts := []string{resource.Version, resource.Resource}
	if resource.Version == "" || resource.Resource == "" {
		return nil, invalid("the version or resource of %s is missing; add both, for example v1 and pods", ref)
	}
	if err := ref.validate(append(parts, resource.Group)...); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	object, err := c.getObject(ctx, resource, namespace, name)
	if err != nil {
		return nil, toError(opGet, ref, err)
	}
	out := redact.Object(object)
	if meta, ok := out["metadata"].(map[string]any); ok && !o.ManagedFields {
		delete(meta, "managedFields")
	}
	return out, nil
}

func (c *Caller) getObject(ctx context.Context, resource schema.GroupVersionResource, namespace, name string) (map[string]any, error) {
	if isSecret(resource) {
		partial, err := c.secretMetadata(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		partial.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
		return runtime.DefaultUnstructuredConverter.ToUnstructured(partial)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(c.config, c.httpClient)
	if err != nil {
		return nil, err
	}
	var object *unstructured.Unstructured
	if namespace == "" {
		object, err = dynamicClient.Resource(resource).Get(ctx, name, metav1.GetOptions{})
	} else {
		object, err = dynamicClient.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, err
	}
	return object.Object, nil
}

func isSecret(r schema.GroupVersionResource) bool { return r.Group == "" && r.Resource == "secrets" }

// secretMetadata gets only the metadata of a Secret, so that the API server does not send its data.
func (c *Caller) secretMetadata(ctx context.Context, namespace, name string) (*metav1.PartialObjectMetadata, error) {
	metadataClient, err := metadata.NewForConfigAndClient(c.config, c.httpClient)
	if err != nil {
		return nil, err
	}
	return metadataClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
}
