package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// maxExample bounds an example: the page is a table.
const maxExample = 300

// minFixed is the number of fixed characters of a text that identifies its lines.
const minFixed = 10

// examples are lines of real output: golden files, the report of invalid specs, expectations of tests.
type examples struct{ text string }

func readExamples(root string) (*examples, error) {
	var b strings.Builder
	misuse, err := os.ReadFile(filepath.Join(root, "docs/reports/misuse.md"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(misuse)) {
		if strings.HasPrefix(line, "|") {
			b.WriteString(strings.ReplaceAll(line, " | ", "\n"))
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case strings.Contains(path, "/testdata/"):
			b.Write(source)
		case strings.HasSuffix(path, "_test.go"):
			return writeLiterals(&b, path, source)
		}
		return nil
	})
	return &examples{b.String()}, err
}

// writeLiterals adds the string literals of a test.
func writeLiterals(b *strings.Builder, path string, source []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				b.WriteString(text + "\n")
			}
		}
		return true
	})
	return nil
}

var (
	placeholders = regexp.MustCompile(`<[a-z0-9_. ]+>`)
	// testValues are words that tests put in place of values.
	testValues = regexp.MustCompile(`\b(?:SOON|AGO|NS|DIR|HOST)\b`)
	// notValues are parts of patterns, formats, source code and other sentences.
	notValues  = regexp.MustCompile("[%{}$`^\\\\]|\\. ")
	doctorLine = regexp.MustCompile(`^(?:OK|PROBLEM|UNKNOWN) `)
	// sentenceName matches names of placeholders whose values are texts.
	sentenceName = regexp.MustCompile(`err|reason|message|hint|cause|detail|describe|text|violations|command|without|fix`)
	// oneWord matches names of placeholders whose values have no spaces.
	oneWord = regexp.MustCompile(`(?:<[ko]|name|namespace|host|version|component|revision|number|image|node|key|path|port|pod|code|timeout)>$`)
)

// find returns a text that a text with placeholders produced, or nothing.
func (e *examples) find(text string) string {
	if strings.Contains(text, "\n") {
		return ""
	}
	text = strings.TrimSpace(text)
	pattern, longest := examplePattern(text)
	if pattern == nil {
		return ""
	}
	for rest := e.text; ; {
		at := strings.Index(rest, longest)
		if at < 0 {
			return ""
		}
		start, end := strings.LastIndexByte(rest[:at], '\n')+1, strings.IndexByte(rest[at:], '\n')
		if end < 0 {
			end = len(rest) - at
		}
		line := rest[start : at+end]
		found := pattern.FindStringSubmatch(line)
		if found != nil && !testValues.MatchString(line) && isExample(found, placeholders.FindAllString(text, -1)) {
			return found[1]
		}
		rest = rest[at+end:]
	}
}

// isExample reports whether a match is one text with plausible values.
func isExample(match, names []string) bool {
	if len(match[1]) > maxExample || strings.Count(match[1], "(") != strings.Count(match[1], ")") || doctorLine.MatchString(match[1]) {
		return false
	}
	for i, value := range match[2:] {
		if notValues.MatchString(value) || strings.Contains(value, ": ") && !sentenceName.MatchString(names[i]) {
			return false
		}
	}
	return true
}

// examplePattern matches lines with the whole text, and returns the longest fixed part of the text.
// The first group is the text, the others are the values of the placeholders. A text without
// placeholders is its own example; one that is hardly more has none.
func examplePattern(text string) (pattern *regexp.Regexp, longest string) {
	names := placeholders.FindAllString(text, -1)
	if len(names) == 0 || !isSentence(text) {
		return nil, ""
	}
	const word = `(?:[A-Z]\w+ )?[\w"*.-][^\s<>,;]*?`
	var b strings.Builder
	if strings.HasPrefix(text, "<") {
		b.WriteString(`(?:^|  |: |> |\()(`)
	} else {
		b.WriteString(`(?:^|[ (])(`)
	}
	fixed := 0
	for i, p := range placeholders.Split(text, -1) {
		if len(p) > len(longest) {
			longest = p
		}
		fixed += len(strings.TrimSpace(p))
		b.WriteString(regexp.QuoteMeta(p))
		switch {
		case i == len(names):
		case strings.HasSuffix(names[i], "kind>"):
			b.WriteString(`([A-Za-z][\w.]*)`)
		case strings.HasSuffix(names[i], "path>") || names[i] == "<dir>":
			b.WriteString(`([\w"/.][^\s<>,;]*?)`)
		case oneWord.MatchString(names[i]):
			b.WriteString("(" + word + ")")
		default:
			b.WriteString(`([\w"*.\[-][^<>│;]{0,120}?)`)
		}
	}
	if fixed < minFixed {
		return nil, ""
	}
	switch { // two spaces separate columns
	case !strings.HasSuffix(text, ">"):
		b.WriteString(`)(?:$|  |[;,.:)])`)
	case oneWord.MatchString(text):
		b.WriteString(`)(?:$|  |[;,:)]|\.(?: |$))`)
	default:
		b.WriteString(`)(?:$|  )`)
	}
	return regexp.MustCompile(b.String()), longest
}
