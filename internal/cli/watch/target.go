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

// target is which objects are watched.
type target struct {
	resourceArg, name string
	allNamespaces     bool
	labels, fields    string
}

// parse takes KIND, KIND NAME and KIND/NAME.
func (t *target) parse(args []string) error {
	resourceArg, name, ok := strings.Cut(args[0], "/")
	switch {
	case ok && len(args) == 2:
		return fmt.Errorf("%s %s names two objects; give KIND NAME, or KIND/NAME", args[0], args[1])
	case len(args) == 2:
		name = args[1]
	}
	t.resourceArg, t.name = resourceArg, name
	if t.name != "" && t.allNamespaces {
		return fmt.Errorf("%s %s is in one namespace; leave out --all-namespaces, or use --field-selector metadata.name=%s", resourceArg, name, name)
	}
	if _, err := labels.Parse(t.labels); err != nil {
		return fmt.Errorf("selector %q: %w; one looks like app=web,tier!=db", t.labels, err)
	}
	if _, err := fields.ParseSelector(t.fields); err != nil {
		return fmt.Errorf("field selector %q: %w; one looks like metadata.name=web", t.fields, err)
	}
	return nil
}

// listOptions are those of the flags and of the name.
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

// newSource is where the objects come from; dynamic.ResourceInterface is one.
func (t *target) newSource(env *cli.Env, config *rest.Config) (source, *meta.RESTMapping, string, error) {
	mapper, err := env.Getter.ToRESTMapper()
	if err != nil {
		return nil, nil, "", fmt.Errorf("ask %s for its kinds: %w", config.Host, err)
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

// restMapping finds what people mean by a word: a resource, its singular or short name, or a
// kind; alone, with its group, or with version and group.
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
			return nil, fmt.Errorf("look for kind %q: %w", resourceArg, cli.WithHint(err))
		}
		noMatchErr = err
	}
	kind := schema.ParseGroupKind(resourceArg)
	if mapping, err := mapper.RESTMapping(kind); err == nil {
		return mapping, nil
	}
	return nil, fmt.Errorf("the API server has no kind %q (%w); kubectl api-resources lists those it has", resourceArg, noMatchErr)
}
