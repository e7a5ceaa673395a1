package kubeclient

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
)

// DiscoverKinds registers the kinds of other operators in one request and returns them. Labeled
// CustomResourceDefinitions that do not define an application kind are skipped.
func DiscoverKinds(ctx context.Context, c client.Reader) ([]*appkind.Kind, error) {
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := c.List(ctx, &list, client.MatchingLabels{appsapi.LabelApplicationKind: "true"}); err != nil {
		return nil, err
	}
	var kinds []*appkind.Kind
	for i := range list.Items {
		if k, err := appkind.FromCRD(&list.Items[i]); err == nil {
			appkind.Register(k)
			kinds = append(kinds, k)
		}
	}
	return kinds, nil
}

// kindMapper also maps the kinds that were registered after the client was created.
type kindMapper struct{ meta.RESTMapper }

func (m kindMapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if k := appkind.Lookup(gk); k != nil && k.Discovered {
		return &meta.RESTMapping{Resource: k.Resource(), GroupVersionKind: k.GroupVersionKind, Scope: meta.RESTScopeNamespace}, nil
	}
	return m.RESTMapper.RESTMapping(gk, versions...)
}
