package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

var (
	inlineCode  = regexp.MustCompile("`[^`]*`")
	linkTarget  = regexp.MustCompile(`\]\([^)]*\)`)
	markerText  = regexp.MustCompile(`message="((?:[^"\\]|\\.)*)"`)
	yamlMessage = regexp.MustCompile(`^\s*-?\s*(?:message|messageExpression|description):`)
)

// markdownText returns the lines outside of code blocks, without inline code and link targets.
func markdownText(_ string, source []byte) ([]line, error) {
	lines := markdownLines(source)
	for i := range lines {
		lines[i].text = inlineCode.ReplaceAllString(lines[i].text, "`x`")
	}
	return lines, nil
}

// markdownLines returns the lines outside of code blocks, without link targets.
func markdownLines(source []byte) []line {
	var lines []line
	fence := ""
	number := 0
	for text := range strings.Lines(string(source)) {
		number++
		trimmed := strings.TrimSpace(text)
		if marker := fenceMarker(trimmed); fence == "" && marker != "" {
			fence = marker
			continue
		}
		if fence != "" {
			if strings.Trim(trimmed, fence[:1]) == "" && len(trimmed) >= len(fence) {
				fence = ""
			}
			continue
		}
		text = linkTarget.ReplaceAllString(trimmed, "]")
		plain := strings.TrimLeft(text, "#-*> ")
		lines = append(lines, line{number, plain, plain != text})
	}
	return lines
}

// fenceMarker returns the backticks or tildes that open a code block.
func fenceMarker(text string) string {
	for _, c := range []string{"`", "~"} {
		if n := len(text) - len(strings.TrimLeft(text, c)); n >= 3 {
			return strings.Repeat(c, n)
		}
	}
	return ""
}

// goText returns comments, and the string literals that are sentences. Strings of tests often
// quote other programs, so only those of other files count.
func goText(path string, source []byte) ([]line, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var lines []line
	add := func(pos token.Pos, text string, starts bool) {
		start := files.Position(pos).Line
		for i, t := range strings.Split(text, "\n") {
			lines = append(lines, line{start + i, strings.TrimSpace(t), starts && i == 0})
		}
	}
	for _, group := range file.Comments {
		for i, c := range group.List {
			if !isDirective(c.Text) {
				add(c.Pos(), strings.TrimLeft(strings.TrimSuffix(c.Text, "*/"), "/* "), i == 0)
				continue
			}
			for _, m := range markerText.FindAllStringSubmatch(c.Text, -1) {
				add(c.Pos(), m[1], true)
			}
		}
	}
	if strings.HasSuffix(path, "_test.go") {
		return lines, nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && strings.Contains(text, " ") {
			add(literal.Pos(), text, true)
		}
		return true
	})
	return lines, nil
}

// isDirective tells instructions to tools from text.
func isDirective(comment string) bool {
	text := strings.TrimPrefix(comment, "//")
	return strings.HasPrefix(text, "go:") || strings.HasPrefix(text, "nolint") || strings.HasPrefix(strings.TrimSpace(text), "+")
}

// yamlText returns comments, messages and descriptions.
func yamlText(_ string, source []byte) ([]line, error) {
	var lines []line
	number := 0
	for text := range strings.Lines(string(source)) {
		number++
		if _, comment, ok := strings.Cut(text, "#"); ok {
			lines = append(lines, line{number, strings.TrimSpace(comment), false})
			continue
		}
		if yamlMessage.MatchString(text) {
			_, message, _ := strings.Cut(text, ":")
			lines = append(lines, line{number, strings.TrimSpace(message), true})
		}
	}
	return lines, nil
}
