package main

import (
	"bufio"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// decoys are sentences that a reader must mark; a review counts only if most of them are found.
//
//go:embed decoys.txt
var decoys string

// minDecoys is how many of the decoys a reader has to mark.
const minDecoys = 18

// printSheet numbers the sentences of files and hides the decoys among them. The seed decides where.
func printSheet(w io.Writer, seed uint64, files []string) error {
	var items []string
	seen := map[string]bool{}
	for _, file := range files {
		found, err := readItems(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, item := range found {
			if !seen[item] {
				seen[item] = true
				items = append(items, item)
			}
		}
	}
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // repeatable, not secret
	for _, d := range strings.Split(strings.TrimSpace(decoys), "\n") {
		items = slices.Insert(items, random.IntN(len(items)+1), d)
	}
	for i, item := range items {
		if _, err := fmt.Fprintf(w, "%d\t%s\n", i+1, item); err != nil {
			return err
		}
	}
	return nil
}

func readItems(file string) ([]string, error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if filepath.Ext(file) == ".go" {
		return goItems(file, source)
	}
	return sentences(markdownLines(source)), nil
}

var (
	sentenceEnd = regexp.MustCompile(`([.!?])\s+([A-Z"\x60])`)
	tableRule   = regexp.MustCompile(`^\|[ :|-]+\|$`)
)

// sentences joins wrapped lines and splits them into sentences; each cell of a table is one.
func sentences(lines []line) []string {
	var items []string
	paragraph := ""
	flush := func() {
		for s := range strings.SplitSeq(sentenceEnd.ReplaceAllString(paragraph, "$1\n$2"), "\n") {
			if s = strings.TrimSpace(s); strings.Contains(s, " ") {
				items = append(items, s)
			}
		}
		paragraph = ""
	}
	last := 0
	for _, l := range lines {
		switch {
		case tableRule.MatchString(l.text):
			continue
		case strings.HasPrefix(l.text, "|"):
			flush()
			for cell := range strings.SplitSeq(strings.Trim(l.text, "|"), " | ") {
				paragraph = cell
				flush()
			}
			continue
		case l.text == "" || l.number != last+1 || l.starts:
			flush()
		}
		paragraph += " " + l.text
		last = l.number
	}
	flush()
	return items
}

// goItems returns the sentences of comments and messages, and the names that a file declares.
func goItems(path string, source []byte) ([]string, error) {
	lines, err := goText(path, source)
	if err != nil {
		return nil, err
	}
	items := sentences(lines)
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			items = append(items, "name: func "+file.Name.Name+"."+d.Name.Name)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					items = append(items, "name: type "+file.Name.Name+"."+t.Name.Name)
				}
			}
		}
	}
	return items, nil
}

// printScore compares marks ("NUMBER reason" per line) with a sheet.
func printScore(w io.Writer, sheetFile, marksFile string) error {
	sheet, err := readNumbered(sheetFile)
	if err != nil {
		return err
	}
	marks, err := readNumbered(marksFile)
	if err != nil {
		return err
	}
	isDecoy := map[string]bool{}
	for _, d := range strings.Split(strings.TrimSpace(decoys), "\n") {
		isDecoy[d] = true
	}
	found, marked, own := 0, 0, len(sheet)-len(isDecoy)
	for _, number := range slices.Sorted(maps.Keys(marks)) {
		switch text, ok := sheet[number]; {
		case !ok:
			return fmt.Errorf("%s: the sheet has no item %d", marksFile, number)
		case isDecoy[text]:
			found++
		default:
			marked++
			fmt.Fprintf(w, "%d\t%s\n\t-> %s\n", number, text, marks[number])
		}
	}
	verdict := "counts"
	if found < minDecoys {
		verdict = "does not count"
	}
	rate := "no marks"
	if marked > 0 {
		rate = fmt.Sprintf("1 in %d", own/marked)
	}
	_, err = fmt.Fprintf(w, "decoys marked: %d of %d, the review %s; own items marked: %d of %d (%s)\n", found, len(isDecoy), verdict, marked, own, rate)
	return err
}

// readNumbered reads lines that begin with a number.
func readNumbered(file string) (map[int]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	out := map[int]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		number, text, _ := strings.Cut(strings.ReplaceAll(lines.Text(), "\t", " "), " ")
		if n, err := strconv.Atoi(strings.TrimRight(number, ".:")); err == nil {
			out[n] = strings.TrimSpace(text)
		}
	}
	return out, nil
}
