package health

import (
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
)

// Rule defines the health of the objects of a kind. Each expression is CEL over the variable "object";
// the first one that is true, in the order of the fields, decides.
type Rule struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`

	Suspended   string `json:"suspended,omitempty"`
	Degraded    string `json:"degraded,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Healthy     string `json:"healthy,omitempty"`
	// Message is an expression of type string.
	Message string `json:"message,omitempty"`
}

// Rules are compiled health rules for custom resources.
type Rules struct{ byKind map[schema.GroupKind]rule }

// rule is a compiled Rule.
type rule struct {
	cases   []statusCase
	message cel.Program
}

type statusCase struct {
	status    Status
	condition cel.Program
}

// maxCost limits the cost of an expression, so that an expensive rule cannot block other requests.
const maxCost = 100_000

// CompileRules compiles rules. Errors name the kind and the expression.
func CompileRules(rules []Rule) (*Rules, error) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType))
	utilruntime.Must(err) // the options are constant
	out := &Rules{byKind: map[schema.GroupKind]rule{}}
	for _, r := range rules {
		gk := schema.GroupKind{Group: r.Group, Kind: r.Kind}
		if r.Kind == "" {
			return nil, fmt.Errorf("health rule without a kind; set kind")
		}
		var compiled rule
		for _, c := range []struct {
			status     Status
			expression string
		}{{Suspended, r.Suspended}, {Degraded, r.Degraded}, {Progressing, r.Progressing}, {Healthy, r.Healthy}} {
			if c.expression == "" {
				continue
			}
			p, err := compileExpression(env, c.expression, cel.BoolType)
			if err != nil {
				return nil, fmt.Errorf("health rule for %s, %s: %w", gk, strings.ToLower(string(c.status)), err)
			}
			compiled.cases = append(compiled.cases, statusCase{c.status, p})
		}
		if len(compiled.cases) == 0 {
			return nil, fmt.Errorf("health rule for %s has no expression; set healthy, progressing, degraded or suspended", gk)
		}
		if r.Message != "" {
			if compiled.message, err = compileExpression(env, r.Message, cel.StringType); err != nil {
				return nil, fmt.Errorf("health rule for %s, message: %w", gk, err)
			}
		}
		out.byKind[gk] = compiled
	}
	return out, nil
}

func compileExpression(env *cel.Env, expression string, want *cel.Type) (cel.Program, error) {
	ast, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, issues.Err()
	}
	if got := ast.OutputType(); got != want && got != cel.DynType {
		return nil, fmt.Errorf("%q has type %s; use an expression of type %s", expression, got, want)
	}
	return env.Program(ast, cel.CostLimit(maxCost))
}

// Has reports whether there is a rule for a kind.
func (r *Rules) Has(kind schema.GroupKind) bool {
	if r == nil {
		return false
	}
	_, ok := r.byKind[kind]
	return ok
}

// evaluate applies the rule of the kind. An expression that refers to a missing field does not apply.
// If no expression applies, the object is progressing.
func (r *Rules) evaluate(o *unstructured.Unstructured) (Result, bool) {
	if !r.Has(o.GroupVersionKind().GroupKind()) {
		return Result{}, false
	}
	rule := r.byKind[o.GroupVersionKind().GroupKind()]
	name, input := describe(o), map[string]any{"object": o.Object}
	status := Progressing
	for _, c := range rule.cases {
		if got, _, err := c.condition.Eval(input); err == nil && got.Value() == true {
			status = c.status
			break
		}
	}
	message := fmt.Sprintf("%s is %s according to the health rule of its kind", name, strings.ToLower(string(status)))
	if rule.message != nil {
		if got, _, err := rule.message.Eval(input); err == nil {
			if text, ok := got.Value().(string); ok && text != "" {
				message = fmt.Sprintf("%s: %s", name, text)
			}
		}
	}
	switch status {
	case Healthy:
		return healthy(message), true
	case Degraded:
		return degraded(appsapi.ReasonComponentDegraded, message), true
	case Suspended:
		return suspended(message), true
	}
	return progressing(message), true
}
