package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admissionregistration/v1"
)

// expressionTexts returns the texts that a messageExpression can produce: its strings, with
// placeholders for other values. A condition in the expression leads to one text for each branch.
func expressionTexts(expression string, variables []admissionv1.Variable) ([]string, error) {
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		return nil, err
	}
	r := &renderer{variables: map[string]ast.Expr{}}
	parse := func(name, expression string) (ast.Expr, error) {
		parsed, issues := env.Parse(expression)
		if issues.Err() != nil {
			return nil, fmt.Errorf("parse %s: %w", name, issues.Err())
		}
		return parsed.NativeRep().Expr(), nil
	}
	for _, v := range variables {
		if r.variables[v.Name], err = parse("variable "+v.Name, v.Expression); err != nil {
			return nil, err
		}
	}
	message, err := parse("messageExpression", expression)
	if err != nil {
		return nil, err
	}
	texts := map[string]bool{}
	for _, branch := range []int{1, 2} {
		r.branch = branch
		text, _ := r.render(message)
		texts[text] = true
	}
	return slices.Sorted(maps.Keys(texts)), nil
}

type renderer struct {
	variables map[string]ast.Expr
	branch    int // argument of conditional operators: 1 if true, 2 if false
	depth     int // of variables
}

// render returns the text of an expression and the length of its fixed part.
func (r *renderer) render(e ast.Expr) (text string, fixed int) {
	switch e.Kind() {
	case ast.LiteralKind:
		if s, ok := e.AsLiteral().(types.String); ok {
			return string(s), len(s)
		}
	case ast.CallKind:
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.Add:
			left, fixedLeft := r.render(args[0])
			right, fixedRight := r.render(args[1])
			return left + right, fixedLeft + fixedRight
		case operators.Conditional:
			return r.renderConditional(args)
		case operators.Index, operators.OptIndex:
			return r.render(args[0])
		case "format":
			text, fixed := r.render(e.AsCall().Target())
			return strings.ReplaceAll(text, "%s", "<value>"), fixed
		}
	case ast.SelectKind:
		name := e.AsSelect().FieldName()
		if variable := r.variables[name]; variable != nil && e.AsSelect().Operand().AsIdent() == "variables" {
			r.depth++
			defer func() { r.depth-- }()
			if text, fixed := r.render(variable); fixed > 0 {
				return text, fixed
			}
		}
		return "<" + words(name) + ">", 0
	case ast.IdentKind:
		return "<" + words(e.AsIdent()) + ">", 0
	}
	return "<value>", 0
}

// renderConditional uses the branch with the longest fixed text within a variable, whose condition is
// independent of the message.
func (r *renderer) renderConditional(args []ast.Expr) (string, int) {
	if r.depth == 0 {
		return r.render(args[r.branch])
	}
	text, fixed := r.render(args[2])
	if other, longer := r.render(args[1]); longer > fixed {
		return other, longer
	}
	return text, fixed
}
