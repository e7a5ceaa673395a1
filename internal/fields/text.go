package fields

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Authors names managers as "kubectl-edit (Update)", "holdfast-status (Apply of status)".
func Authors(managers []Manager) string {
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
	// room is how much of a value is shown where the terminal does not say.
	room = 60
	// minRoom is the least that is worth showing.
	minRoom = 12
)

// Text is a field for people, within a width if there is one.
func (f Field) Text(width int) string {
	if f.Redacted {
		return f.Path + ": " + strings.ToLower(f.Change)
	}
	each := room
	if width > 0 {
		each = max(minRoom, min(room, (width-utf8.RuneCountInString(f.Path)-len(":  -> "))/2))
	}
	before, after := value(f.Old), value(f.New)
	switch f.Change {
	case Set:
		before, after = "(none)", shorten(after, 0, each)
	case Removed:
		before, after = shorten(before, 0, each), "(none)"
	default:
		from := differFrom(before, after)
		before, after = shorten(before, from, each), shorten(after, from, each)
	}
	return f.Path + ": " + before + " -> " + after
}

// value writes a value on one line.
func value(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// differFrom is where two texts begin to differ, in runes.
func differFrom(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	n := 0
	for n < len(ra) && n < len(rb) && ra[n] == rb[n] {
		n++
	}
	return n
}

// shorten leaves what is around a place of a text that is too long.
func shorten(text string, from, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	begin := min(max(0, from-most/3), len(runes)-most)
	end := begin + most
	out := string(runes[begin:end])
	if begin > 0 {
		out = "…" + out
	}
	if end < len(runes) {
		out += "…"
	}
	return out
}
