package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// line is one line of text with its position.
type line struct {
	number int
	text   string
	starts bool // a list item, heading, comment or message: not a continuation of the line before
}

// extractors return the text of a file that people read, by extension.
var extractors = map[string]func(path string, source []byte) ([]line, error){
	".md":   markdownText,
	".go":   goText,
	".yaml": yamlText,
}

// skipped are directories without our texts.
var skipped = map[string]bool{"testdata": true, "out": true, "bin": true, "dist": true, "client": true, "node_modules": true}

// lint returns the lines below some directories that use a phrase of a list. A line that contains
// "prose:ok" is exempt, for example because it quotes another program.
func lint(list string, dirs []string) (findings []string, err error) {
	text, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	rules, err := parseRules(string(text))
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if entry.IsDir() && path != dir && (strings.HasPrefix(entry.Name(), ".") || skipped[entry.Name()]) {
				return filepath.SkipDir
			}
			extract := extractors[filepath.Ext(path)]
			if entry.IsDir() || extract == nil || strings.HasPrefix(entry.Name(), "zz_generated") {
				return nil
			}
			source, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			lines, err := extract(path, source)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			findings = append(findings, check(path, lines, rules)...)
			return nil
		})
		if err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// rule is one phrase that must not occur, and what to write instead.
type rule struct {
	pattern *regexp.Regexp
	instead string
}

// parseRules reads lines of the form "regular expression => what to write instead". Expressions
// match whole words, in any case. "^" is the beginning of a sentence.
func parseRules(text string) ([]rule, error) {
	var rules []rule
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		phrase, instead, ok := strings.Cut(l, " => ")
		if !ok {
			return nil, fmt.Errorf("%q: want \"phrase => what to write instead\"", l)
		}
		expression := `(?i)\b(?:` + phrase + `)\b`
		if rest, atStart := strings.CutPrefix(phrase, "^"); atStart {
			expression = `(?:^|[.!?:;] |\| )(?:` + rest + `)\b`
		}
		pattern, err := regexp.Compile(expression)
		if err != nil {
			return nil, err
		}
		rules = append(rules, rule{pattern, instead})
	}
	return rules, nil
}

// check returns one finding per line and rule.
func check(path string, lines []line, rules []rule) []string {
	var findings []string
	for _, l := range lines {
		if strings.Contains(l.text, "prose:ok") {
			continue
		}
		for _, r := range rules {
			if phrase := r.pattern.FindString(l.text); phrase != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %q: %s", path, l.number, strings.Trim(phrase, ".!?:;| "), r.instead))
			}
		}
	}
	return findings
}
