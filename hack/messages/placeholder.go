package main

import (
	"go/ast"
	"regexp"
	"strings"
	"unicode"
)

var verb = regexp.MustCompile(`%%|%[-+# 0]*[0-9]*(?:\.[0-9]+)?(?:\[([0-9]+)\])?[a-zA-Z]`)

// fillVerbs replaces the verbs of a format by the names of its arguments.
func fillVerbs(format string, args []ast.Expr) string {
	next := 0
	return verb.ReplaceAllStringFunc(format, func(v string) string {
		if v == "%%" {
			return "%"
		}
		if at := verb.FindStringSubmatch(v)[1]; at != "" {
			next = int(at[0] - '1')
		}
		name := "<value>"
		if next < len(args) {
			name = placeholder(args[next])
		}
		next++
		if strings.HasSuffix(v, "q") {
			return `"` + name + `"`
		}
		return name
	})
}

// placeholder names an expression in angle brackets: strings.Join(kinds, ", ") becomes <kinds>.
func placeholder(e ast.Expr) string {
	return "<" + words(exprName(e)) + ">"
}

func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		switch e.Sel.Name {
		case "Name", "Kind", "Namespace", "Key":
			if owner := exprName(e.X); !strings.HasSuffix(strings.ToLower(owner), strings.ToLower(e.Sel.Name)) && len(owner) > 2 && owner != "value" {
				return owner + e.Sel.Name
			}
		}
		return e.Sel.Name
	case *ast.CallExpr:
		if name := calledName(e); !genericFunctions[name] || len(e.Args) == 0 {
			return strings.TrimPrefix(name, "Get")
		}
		return exprName(e.Args[0])
	case *ast.IndexExpr:
		return exprName(e.X)
	case *ast.StarExpr:
		return exprName(e.X)
	case *ast.ParenExpr:
		return exprName(e.X)
	case *ast.UnaryExpr:
		return exprName(e.X)
	}
	return "value"
}

// genericFunctions do not say what their result is; their first argument does.
var genericFunctions = map[string]bool{"Join": true, "ToLower": true, "len": true, "abbreviate": true, "string": true, "cmp": true, "Or": true, "Itoa": true}

// words separates the words of an identifier: podName becomes "pod name".
func words(identifier string) string {
	var b strings.Builder
	runes := []rune(identifier)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
