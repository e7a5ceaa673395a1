package watch

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// target selects the watched objects.
type target struct {
	resourceArg, name string
	allNamespaces     bool
	labels, fields    string
}

// parse parses KIND, KIND NAME or KIND/NAME.
func (t *target) parse(args []string) error {
	resourceArg, name, ok := strings.Cut(args[0], "/")
	switch {
	case ok && len(args) == 2:
		return fmt.Errorf("%s %s specifies two objects; use KIND NAME or KIND/NAME", args[0], args[1])
	case len(args) == 2:
		name = args[1]
	}
	t.resourceArg, t.name = resourceArg, name
	if t.name != "" && t.allNamespaces {
		return fmt.Errorf("%s %s cannot be combined with --all-namespaces; omit it, or use --field-selector metadata.name=%s",
			resourceArg, name, name)
	}
	if _, err := labels.Parse(t.labels); err != nil {
		return fmt.Errorf("selector %q: %w; use a selector such as app=web,tier!=db", t.labels, err)
	}
	if _, err := fields.ParseSelector(t.fields); err != nil {
		return fmt.Errorf("field selector %q: %w; use a selector such as metadata.name=web", t.fields, err)
	}
	return nil
}

// listOptions returns the selectors of the flags and of the name.
func (t *target) listOptions() metav1.ListOptions {
	o := metav1.ListOptions{LabelSelector: t.labels, FieldSelector: t.fields}
	if t.name == "" {
		return o
	}
	name := fields.OneTermEqualSelector(metav1.ObjectNameField, t.name).String()
	if o.FieldSelector != "" {
		name += "," + o.FieldSelector
	}
	o.FieldSelector = name
	return o
}

// newSource returns the client for the watched objects, with their mapping and scope.
func (t *target) newSource(env *cli.Env, config *rest.Config) (source, *meta.RESTMapping, string, error) {
	mapper, err := env.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, "", fmt.Errorf("discover the kinds of %s: %w", config.Host, err)
	}
	mapping, err := restMapping(mapper, t.resourceArg)
	if err != nil {
		return nil, nil, "", err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, "", err
	}
	resource := client.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return resource, mapping, "", nil
	}
	if t.allNamespaces {
		return resource, mapping, " of all namespaces", nil
	}
	namespace, err := env.Namespace()
	if err != nil {
		return nil, nil, "", err
	}
	return resource.Namespace(namespace), mapping, " of namespace " + namespace, nil
}

// restMapping finds a resource by its plural, singular or short name or by its kind, optionally with
// group or with version and group.
func restMapping(mapper meta.RESTMapper, resourceArg string) (*meta.RESTMapping, error) {
	full, resource := schema.ParseResourceArg(resourceArg)
	candidates := []schema.GroupVersionResource{resource.WithVersion("")}
	if full != nil {
		candidates = append([]schema.GroupVersionResource{*full}, candidates...)
	}
	var noMatchErr error
	for _, gvr := range candidates {
		gvk, err := mapper.KindFor(gvr)
		if err == nil {
			return mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		}
		if !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("find kind %q: %w", resourceArg, cli.WithHint(err))
		}
		noMatchErr = err
	}
	kind := schema.ParseGroupKind(resourceArg)
	if mapping, err := mapper.RESTMapping(kind); err == nil {
		return mapping, nil
	}
	return nil, fmt.Errorf("kind %q not found (%w); kubectl api-resources lists the available kinds", resourceArg, noMatchErr)
}
