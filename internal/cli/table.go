package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Table prints aligned columns. On a narrow terminal the last column, usually a sentence, is wrapped
// below itself.
type Table struct {
	Columns []string
	Rows    [][]string
	// NoHeaders omits the header row.
	NoHeaders bool
	// StackLastColumn prints the last column below the others if the terminal is too narrow.
	StackLastColumn bool
	// Colorize returns a cell with color codes. Nil: no color.
	Colorize func(column int, text string) string
}

const (
	columnGap = 2
	// minLastColumnWidth is the minimum width of the last column. Narrower terminals wrap lines.
	minLastColumnWidth = 20
	// minInlineWidth is the minimum width of a last column next to the others, stackedIndent the
	// indentation of a last column below them.
	minInlineWidth, stackedIndent = 28, 4
)

// Print prints the table.
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

// Wrap breaks a text between words into lines of at most width characters. 0: no limit. Longer words
// are not broken, so that users can copy them.
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

// OrDash returns the text, or a dash if it is empty.
func OrDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
