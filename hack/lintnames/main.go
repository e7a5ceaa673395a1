// Command lintnames rejects identifiers, file names and package names in Go files that contain a
// word of words.txt.
//
//	lintnames words.txt DIR...
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: lintnames WORDS DIR...")
		os.Exit(2)
	}
	found, err := run(os.Args[1], os.Args[2:])
	for _, f := range found {
		fmt.Println(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lintnames:", err)
		os.Exit(2)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

func run(list string, dirs []string) (found []string, err error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	banned := parseWords(string(text))
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") && path != dir || entry.Name() == "testdata" || entry.Name() == "out" || entry.Name() == "bin") {
				return filepath.SkipDir
			}
			if entry.IsDir() || filepath.Ext(path) != ".go" {
				return nil
			}
			more, err := checkFile(path, nil, banned)
			found = append(found, more...)
			return err
		})
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// parseWords reads lines of the form "word: use this instead".
func parseWords(text string) map[string]string {
	banned := map[string]string{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if word, instead, ok := strings.Cut(line, ":"); ok {
			banned[strings.TrimSpace(word)] = strings.TrimSpace(instead)
		}
	}
	return banned
}

// checkFile returns one line per name in a file that contains a banned word.
func checkFile(path string, source any, banned map[string]string) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []string
	report := func(where, name string) {
		for _, word := range split(name) {
			if instead, ok := banned[word]; ok {
				found = append(found, fmt.Sprintf("%s: %s: do not use %q; use %s", where, name, word, instead))
				return
			}
		}
	}
	report(path, strings.TrimSuffix(filepath.Base(path), ".go"))
	report(path, file.Name.Name)
	seen := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !seen[id.Name] {
			seen[id.Name] = true
			report(files.Position(id.Pos()).String(), id.Name)
		}
		return true
	})
	return found, nil
}

// split returns the words of an identifier in lower case: splitCache and split_cache have two.
func split(name string) []string {
	var words []string
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case r == '_' || r == '-' || r == '.':
			flush()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		word.WriteRune(r)
	}
	flush()
	return words
}
