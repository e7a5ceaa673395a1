package objdiff

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FormatManagers formats managers as "kubectl-edit (Update)", "holdfast-status (Apply of status)".
func FormatManagers(managers []Manager) string {
	var names []string
	for _, m := range managers {
		how := m.Operation
		if m.Subresource != "" {
			how += " of " + m.Subresource
		}
		names = append(names, fmt.Sprintf("%s (%s)", m.Name, how))
	}
	return strings.Join(names, ", ")
}

const (
	// maxValueWidth is the maximum width of a value if the width of the terminal is unknown.
	maxValueWidth = 60
	// minValueWidth is the minimum width of a value.
	minValueWidth = 12
)

// Text returns the change as text, within a width unless it is 0.
func (f FieldChange) Text(width int) string {
	path := f.Path.String()
	if f.Redacted {
		return path + ": " + strings.ToLower(f.Type)
	}
	valueWidth := maxValueWidth
	if width > 0 {
		valueWidth = max(minValueWidth, min(maxValueWidth, (width-utf8.RuneCountInString(path)-len(":  -> "))/2))
	}
	before, after := formatValue(f.Old), formatValue(f.New)
	switch f.Type {
	case Set:
		before, after = "(none)", shorten(after, 0, valueWidth)
	case Removed:
		before, after = shorten(before, 0, valueWidth), "(none)"
	default:
		from := firstDifference(before, after)
		before, after = shorten(before, from, valueWidth), shorten(after, from, valueWidth)
	}
	return path + ": " + before + " -> " + after
}

// formatValue returns a value on one line.
func formatValue(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// firstDifference returns the first position at which two texts differ, in runes.
func firstDifference(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	n := 0
	for n < len(ra) && n < len(rb) && ra[n] == rb[n] {
		n++
	}
	return n
}

// shorten returns the part of a text around a position.
func shorten(text string, from, maxLen int) string {
	runes := []rune(text)
	if len(runes) <= maxLen {
		return text
	}
	begin := min(max(0, from-maxLen/3), len(runes)-maxLen)
	end := begin + maxLen
	out := string(runes[begin:end])
	if begin > 0 {
		out = "…" + out
	}
	if end < len(runes) {
		out += "…"
	}
	return out
}
