package collect

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/health"
	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// ReadRules reads health rules from a file. An empty name returns no rules.
func ReadRules(file string) (*health.Rules, error) {
	if file == "" {
		return nil, nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%w; specify a file with health rules", err)
	}
	var rules []health.Rule
	if err := yaml.UnmarshalStrict(content, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w; the file must contain a list of rules with group, kind and expressions", file, err)
	}
	compiled, err := health.CompileRules(rules)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return compiled, nil
}

// Object reads an object of any kind and evaluates its status.
func Object(ctx context.Context, env *cli.Env, args []string, rules *health.Rules, now time.Time) (Result, error) {
	resourceArg, name, _ := strings.Cut(strings.Join(args, "/"), "/")
	namespace, err := env.Namespace()
	if err != nil {
		return Result{}, err
	}
	mapping, err := restMapping(env, resourceArg)
	if err != nil {
		return Result{}, err
	}
	config, err := env.Config()
	if err != nil {
		return Result{}, err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return Result{}, err
	}
	var resource dynamic.ResourceInterface = d.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = d.Resource(mapping.Resource).Namespace(namespace)
	}
	obj, err := resource.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Result{}, cli.WithHint(err)
	}
	c, err := env.Client()
	if err != nil {
		return Result{}, err
	}
	l, err := newSingleObject(c, obj, rules).evaluate(ctx, now)
	l.addReadyMessage(obj)
	return l, err
}

// addReadyMessage shows the message of the condition Ready, which usually names the problem.
func (l *Result) addReadyMessage(obj *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, item := range conditions {
		c, _ := item.(map[string]any)
		message, _ := c["message"].(string)
		if c["type"] != "Ready" || c["status"] == "True" || message == "" || l.Ready {
			continue
		}
		l.Message = plaintext.Line(message, maxReadyMessage)
		for i := range l.Causes {
			l.Causes[i].Evidence = append(l.Causes[i].Evidence, l.Message)
		}
	}
}

// maxReadyMessage limits the message of another operator.
const maxReadyMessage = 1024

// restMapping finds a resource by its plural, singular or short name or by its kind, with or without the
// group.
func restMapping(env *cli.Env, resourceArg string) (*meta.RESTMapping, error) {
	mapper, err := env.Getter.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	resource, group, _ := strings.Cut(strings.ToLower(resourceArg), ".")
	kind, err := mapper.KindFor(schema.GroupVersionResource{Group: group, Resource: resource})
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("find kind %q: %w", resourceArg, cli.WithHint(err))
	}
	if err != nil {
		return nil, fmt.Errorf("kind %q not found in the cluster; kubectl api-resources lists the available kinds", resourceArg)
	}
	return mapper.RESTMapping(kind.GroupKind(), kind.Version)
}
