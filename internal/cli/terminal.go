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
	// Color says whether colours are shown. Nothing is said by colour alone.
	Color bool
}

// NewTerminal finds out about an output. colour is auto, always or never. COLUMNS goes
// before what the terminal says, as everywhere.
func NewTerminal(out io.Writer, color string) Terminal {
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
	switch color {
	case "always":
		t.Color = true
	case "never":
	default:
		t.Color = isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// Colours by what they mean.
const (
	ColorGood    = "32"
	ColorBad     = "31"
	ColorWarning = "33"
	StyleDim     = "2"
	StyleBold    = "1"
)

// Colorize colours a text, where colours are shown.
func (t Terminal) Colorize(color, text string) string {
	if !t.Color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
