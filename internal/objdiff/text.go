package objdiff

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// FormatManagers names managers as "kubectl-edit (Update)", "holdfast-status (Apply of status)".
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
	// maxValueWidth is how much of a value is shown where the terminal does not say.
	maxValueWidth = 60
	// minValueWidth is the least that is worth showing.
	minValueWidth = 12
)

// Text is a field for people, within a width if there is one.
func (f FieldChange) Text(width int) string {
	if f.Redacted {
		return f.Path + ": " + strings.ToLower(f.Type)
	}
	valueWidth := maxValueWidth
	if width > 0 {
		valueWidth = max(minValueWidth, min(maxValueWidth, (width-utf8.RuneCountInString(f.Path)-len(":  -> "))/2))
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
	return f.Path + ": " + before + " -> " + after
}

// formatValue writes a value on one line.
func formatValue(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// firstDifference is where two texts begin to differ, in runes.
func firstDifference(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	n := 0
	for n < len(ra) && n < len(rb) && ra[n] == rb[n] {
		n++
	}
	return n
}

// shorten leaves what is around a place of a text that is too long.
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
