package look

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// ReadRules reads health rules from a file; "" means none.
func ReadRules(file string) (*health.Rules, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; give the path of a file with health rules", err)
	}
	var rules []health.Rule
	if err := yaml.UnmarshalStrict(content, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w; it is a list of rules with group, kind and expressions", file, err)
	}
	compiled, err := health.Compile(rules)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return compiled, nil
}

// IsOther says whether arguments name an object of a kind that is none of ours.
func IsOther(args []string) bool {
	word, _, slash := strings.Cut(strings.Join(args, "/"), "/")
	if !slash {
		return false
	}
	_, err := application.KindCalled(word)
	return err != nil
}

// Other looks at an object of any kind, by what it says itself.
func Other(ctx context.Context, env *cli.Env, args []string, rules *health.Rules, now time.Time) (Look, error) {
	word, name, _ := strings.Cut(strings.Join(args, "/"), "/")
	namespace, err := env.Namespace()
	if err != nil {
		return Look{}, err
	}
	mapping, err := mappingOf(env, word)
	if err != nil {
		return Look{}, err
	}
	config, err := env.Config()
	if err != nil {
		return Look{}, err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return Look{}, err
	}
	var from dynamic.ResourceInterface = d.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		from = d.Resource(mapping.Resource).Namespace(namespace)
	}
	obj, err := from.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Look{}, cli.Explained(err)
	}
	v := health.Custom(obj, rules)
	l := Look{View: view.View{
		Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: name, Health: v.Status, Ready: v.Status == health.Healthy,
		Reason: v.Reason, Message: v.Message, Since: obj.GetCreationTimestamp().Time,
	}}
	l.Causes = explain.Explain(explain.Scene{Others: []*unstructured.Unstructured{obj}, Rules: rules}, now).Causes
	if c, err := env.Client(); err == nil && !l.Ready {
		l.hear(ctx, c)
	}
	return l, nil
}

// mappingOf finds the resource that people mean by a word: its name, plural, short name or
// kind, with or without its group.
func mappingOf(env *cli.Env, word string) (*meta.RESTMapping, error) {
	mapper, err := env.Getter.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("ask the API server which kinds it knows: %w", err)
	}
	resource, group, _ := strings.Cut(strings.ToLower(word), ".")
	kind, err := mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
	if err != nil {
		return nil, fmt.Errorf("the cluster knows no kind %q; kubectl api-resources lists those there are", word)
	}
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

// hear adds what was said about the object as evidence.
func (l *Look) hear(ctx context.Context, c client.Client) {
	var list corev1.EventList
	err := c.List(ctx, &list, client.InNamespace(l.Namespace), client.Limit(maxEvents),
		client.MatchingFields{"involvedObject.kind": l.Kind, "involvedObject.name": l.Name})
	if err != nil {
		l.Missed = append(l.Missed, "Events: "+err.Error())
		return
	}
	for i := range list.Items {
		for n := range l.Causes {
			l.Causes[n].Evidence = append(l.Causes[n].Evidence, explain.EventOf(&list.Items[i]).String())
		}
	}
}
