package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Terminal is where an answer is shown.
type Terminal struct {
	io.Writer
	// Width is how many characters fit on a line; 0 means any number.
	Width int
	// Colour says whether colours are shown. Nothing is said by colour alone.
	Colour bool
}

// NewTerminal finds out about an output. colour is auto, always or never. COLUMNS goes
// before what the terminal says, as everywhere.
func NewTerminal(out io.Writer, colour string) Terminal {
	t := Terminal{Writer: out}
	f, isFile := out.(*os.File)
	isTerminal := isFile && term.IsTerminal(int(f.Fd()))
	if isTerminal {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			t.Width = width
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		t.Width = n
	}
	switch colour {
	case "always":
		t.Colour = true
	case "never":
	default:
		t.Colour = isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// Colours by what they mean.
const (
	Good = "32"
	Bad  = "31"
	Busy = "33"
	Dim  = "2"
	Bold = "1"
)

// Paint colours a text, where colours are shown.
func (t Terminal) Paint(colour, text string) string {
	if !t.Colour || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
