package objdiff

import (
	"slices"
	"strings"
)

// Path is the path of a value within an object. It prints as in messages, with keys that are not plain
// names in brackets: spec.components[api].service.image, metadata.annotations[example.com/team].
type Path []Step

// Step is a field of an object or an item of a list.
type Step struct {
	// Name is the name of a field, the key of an item, or the index of an item without a key.
	Name string
	// Item is set for items of lists.
	Item bool
}

// AnyItem is the name of a step that stands for every item of a list.
const AnyItem = "*"

// ParsePath parses a printed path. A key in brackets is parsed as the key of an item, although it can also
// be the key of a map: both print the same.
func ParsePath(text string) Path {
	var path Path
	for text != "" {
		if key, ok := strings.CutPrefix(text, "["); ok {
			key, text, _ = strings.Cut(key, "]")
			path = append(path, Step{Name: key, Item: true})
		} else {
			end := strings.IndexAny(text, ".[")
			if end < 0 {
				end = len(text)
			}
			path = append(path, Step{Name: text[:end]})
			text = text[end:]
		}
		text = strings.TrimPrefix(text, ".")
	}
	return path
}

func (p Path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case s.Item || s.Name == "" || strings.ContainsAny(s.Name, "./[]"):
			b.WriteString("[" + s.Name + "]")
		case i > 0:
			b.WriteString("." + s.Name)
		default:
			b.WriteString(s.Name)
		}
	}
	return b.String()
}

// MarshalText returns the printed path.
func (p Path) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses a printed path.
func (p *Path) UnmarshalText(text []byte) error {
	*p = ParsePath(string(text))
	return nil
}

// Field returns the path of a field below this one.
func (p Path) Field(name string) Path { return p.append(Step{Name: name}) }

// Item returns the path of an item of the list at this path.
func (p Path) Item(key string) Path { return p.append(Step{Name: key, Item: true}) }

// append copies the path, because paths can share a prefix.
func (p Path) append(s Step) Path {
	out := make(Path, len(p)+1)
	copy(out, p)
	out[len(p)] = s
	return out
}

// HasPrefix reports whether a path starts with another path.
func (p Path) HasPrefix(prefix Path) bool {
	return len(p) >= len(prefix) && slices.Equal(p[:len(prefix)], prefix)
}

// Last returns the last step; an empty step for the empty path.
func (p Path) Last() Step {
	if len(p) == 0 {
		return Step{}
	}
	return p[len(p)-1]
}
