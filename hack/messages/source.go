package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// notMessages are functions whose string arguments are no messages: they read texts of other
// programs, log, or describe flags and metrics, which have pages of their own.
var notMessages = map[string]bool{
	"MustCompile": true, "Compile": true, "Contains": true, "HasPrefix": true, "HasSuffix": true, "Cut": true, "CutPrefix": true,
	"CutSuffix": true, "NewReplacer": true, "ReplaceAll": true, "Split": true, "TrimPrefix": true, "TrimSuffix": true, "Info": true,
	"EqualFold": true, "panic": true, "HandleFunc": true, "newMetric": true, "StringVar": true, "StringVarP": true, "BoolVar": true,
	"BoolVarP": true, "DurationVar": true, "IntVar": true, "Int64Var": true, "StringSliceVar": true, "StringSliceVarP": true, "latestEvent": true, "logRequeue": true,
	"Exec": true, "ExecContext": true, "QueryContext": true, "QueryRowContext": true, "Error": true, "VarP": true, "Var": true,
}

// notMessageKeys are fields of literals that hold help texts, which the plugin page documents.
var notMessageKeys = map[string]bool{"Use": true, "Short": true, "Long": true, "Example": true, "words": true, "phrase": true}

// notMessageVars are tables with texts of other programs.
var notMessageVars = map[string]bool{"pullErrorPatterns": true}

// readPackage returns the messages of the Go files of one directory, in the order of the source.
func readPackage(dir string, a area) ([]message, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var out []message
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		out = append(out, readFile(parsed, a, verbOf(dir))...)
	}
	return out, nil
}

// verbOf names the verb of a package of the plugin.
func verbOf(dir string) string {
	if parent := filepath.Dir(dir); filepath.Base(parent) == "cli" {
		return " " + filepath.Base(dir)
	}
	return ""
}

func readFile(file *ast.File, a area, verb string) []message {
	var out []message
	for _, declaration := range file.Decls {
		if imports, ok := declaration.(*ast.GenDecl); ok && imports.Tok == token.IMPORT {
			continue
		}
		v := &visitor{area: a, verb: verb}
		ast.Walk(v, declaration)
		out = append(out, v.found...)
	}
	return out
}

// visitor collects the messages of one declaration.
type visitor struct {
	area  area
	verb  string
	stack []ast.Node
	code  string // the last code that the declaration mentioned
	found []message
}

func (v *visitor) Visit(n ast.Node) ast.Visitor {
	if n == nil {
		v.stack = v.stack[:len(v.stack)-1]
		return v
	}
	if skipNode(n) {
		return nil
	}
	if _, ok := n.(*ast.CaseClause); ok {
		v.code = ""
	}
	if code := codeName(n); code != "" {
		v.code = code
	}
	if text, ok := sentence(n); ok {
		v.add(text)
		return nil
	}
	v.stack = append(v.stack, n)
	return v
}

func skipNode(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		return notMessages[calledName(n)]
	case *ast.KeyValueExpr:
		key, ok := n.Key.(*ast.Ident)
		return ok && notMessageKeys[key.Name]
	case *ast.ValueSpec:
		return slices.ContainsFunc(n.Names, func(name *ast.Ident) bool { return notMessageVars[name.Name] })
	case *ast.StructType:
		return true
	}
	return false
}

func (v *visitor) add(text string) {
	m := message{code: v.code, text: text, where: v.area.where + v.verb}
	if code := v.enclosingCode(); code != "" {
		m.code = code
	}
	if m.code == "" {
		m.code = v.area.code
	}
	if v.isFix() {
		m.where = "fix"
	}
	v.found = append(v.found, m)
}

// enclosingCode is the code in the innermost literal or call around a message: it may follow the text.
func (v *visitor) enclosingCode() string {
	for _, n := range slices.Backward(v.stack) {
		var siblings []ast.Expr
		switch n := n.(type) {
		case *ast.CompositeLit:
			siblings = n.Elts
		case *ast.CallExpr:
			siblings = n.Args
		case *ast.FuncLit, *ast.BlockStmt:
			return ""
		}
		for _, s := range siblings {
			if pair, ok := s.(*ast.KeyValueExpr); ok {
				s = pair.Value
			}
			if code := codeName(s); code != "" {
				return code
			}
		}
	}
	return ""
}

func (v *visitor) isFix() bool {
	for _, n := range slices.Backward(v.stack) {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			key, ok := n.Key.(*ast.Ident)
			return ok && strings.EqualFold(key.Name, "fix")
		case *ast.AssignStmt:
			return slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return strings.HasSuffix(strings.ToLower(lastName(e)), "fix") })
		}
	}
	return false
}

// codeName is the code that an expression names: a reason of the API, a constant of the catalog, or
// a reason of an event.
func codeName(n ast.Node) string {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if name, ok := strings.CutPrefix(n.Sel.Name, "Reason"); ok && name != "" {
			return name
		}
	case *ast.Ident:
		if catalogCodes[n.Name] {
			return n.Name
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil && eventReason.MatchString(text) {
			return text
		}
	}
	return ""
}

// eventReason matches reasons that the source spells as strings.
var eventReason = regexp.MustCompile(`^[A-Z][a-z]+([A-Z][a-z]+)+$`)

// sentence returns the text of a string, of a concatenation or of a call that formats.
func sentence(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.BasicLit, *ast.BinaryExpr:
		text, ok := constantText(n.(ast.Expr))
		return fillVerbs(text, nil), ok && isSentence(text)
	case *ast.CallExpr:
		if len(n.Args) < 1 || !strings.HasSuffix(calledName(n), "f") {
			return "", false
		}
		for i, arg := range n.Args {
			if format, ok := constantText(arg); ok && isSentence(format) {
				return fillVerbs(format, n.Args[i+1:]), true
			}
		}
	}
	return "", false
}

// constantText is the text of a literal or of a concatenation, in which other parts are placeholders.
func constantText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, okLeft := constantText(e.X)
		right, okRight := constantText(e.Y)
		if !okLeft && !okRight {
			return "", false
		}
		if !okLeft {
			left = placeholder(e.X)
		}
		if !okRight {
			right = placeholder(e.Y)
		}
		return left + right, true
	case *ast.ParenExpr:
		return constantText(e.X)
	}
	return "", false
}

// notSentence matches SQL, scripts, HTTP headers and server-sent events.
var notSentence = regexp.MustCompile(`^(?:(?:CREATE|ALTER|GRANT|IDENTIFIED) [A-Z]|#!|cat /|f=/|default-src |text/|<!doctype |mysql_native|retry: |id: ?|data: )`)

// isSentence tells texts for people from formats such as "%s %s".
func isSentence(text string) bool {
	if notSentence.MatchString(text) {
		return false
	}
	words := 0
	for _, w := range strings.Fields(verb.ReplaceAllString(placeholders.ReplaceAllString(text, ""), "")) {
		if len(strings.Trim(w, ".,:;()[]{}=/\"'`-")) > 1 {
			words++
		}
	}
	return words > 1
}

func calledName(call *ast.CallExpr) string { return lastName(call.Fun) }

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
