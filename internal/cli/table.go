package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table is a list for people. On a narrow terminal its last column goes on in the next
// line, under itself: the sentence is what people came for.
type Table struct {
	Columns []string
	Rows    [][]string
	// NoHeaders leaves out the names of the columns.
	NoHeaders bool
	// StackLastColumn puts the last column under the others where the terminal is too narrow for both.
	StackLastColumn bool
	// Colorize colours a cell; nil leaves all as they are.
	Colorize func(column int, text string) string
}

const (
	columnGap = 2
	// minLastColumnWidth is the least that is left for the last column; narrower terminals wrap.
	minLastColumnWidth = 20
	// minInlineWidth is the least that is worth reading beside other columns, and under how far
	// what is below them is indented.
	minInlineWidth, stackedIndent = 28, 4
)

// Print prints the table on a terminal.
func (t Table) Print(out Terminal) {
	widths := t.widths()
	indent := 0
	for _, w := range widths[:len(widths)-1] {
		indent += w + columnGap
	}
	lastWidth, stacked := 0, false
	if out.Width > 0 {
		lastWidth = max(out.Width-indent, minLastColumnWidth)
		if stacked = t.StackLastColumn && out.Width-indent < minInlineWidth; stacked {
			lastWidth, indent = max(out.Width-stackedIndent, minLastColumnWidth), stackedIndent
		}
	}
	rows := t.Rows
	if !t.NoHeaders {
		rows = append([][]string{t.Columns}, rows...)
	}
	for i, row := range rows {
		heading := i == 0 && !t.NoHeaders
		var b strings.Builder
		last := len(row) - 1
		for j, cell := range row[:last] {
			b.WriteString(t.colorize(heading, j, cell))
			b.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+columnGap))
		}
		if stacked && (heading || row[last] == "") {
			fmt.Fprintln(out, strings.TrimRight(b.String(), " "))
			continue
		}
		for n, line := range Wrap(row[last], lastWidth) {
			if n > 0 || stacked {
				b.WriteString("\n" + strings.Repeat(" ", indent))
			}
			b.WriteString(t.colorize(heading, last, line))
		}
		for line := range strings.SplitSeq(b.String(), "\n") {
			fmt.Fprintln(out, strings.TrimRight(line, " "))
		}
	}
}

func (t Table) colorize(heading bool, column int, text string) string {
	if heading || t.Colorize == nil {
		return text
	}
	return t.Colorize(column, text)
}

func (t Table) widths() []int {
	widths := make([]int, len(t.Columns))
	if !t.NoHeaders {
		for i, c := range t.Columns {
			widths[i] = utf8.RuneCountInString(c)
		}
	}
	for _, row := range t.Rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// Wrap breaks a text into lines of at most width characters, between words; 0 means that
// any length fits. A word that is longer than a line is not broken: people copy it.
func Wrap(text string, width int) []string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// OrDash is a dash for nothing.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
