package cli

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/holdfast-dev/holdfast/internal/plaintext"
)

// Terminal is an output with its terminal properties.
type Terminal struct {
	io.Writer
	// Width is the line width in characters. 0: unlimited.
	Width int
	// Color enables colors. No information is conveyed by color alone.
	Color      bool
	isTerminal bool
}

// NewTerminal detects the properties of an output. color is auto, always or never. The environment
// variable COLUMNS overrides the detected width.
func NewTerminal(out io.Writer, color string) Terminal {
	t := Terminal{Writer: out}
	f, isFile := RawOutput(out).(*os.File)
	t.isTerminal = isFile && term.IsTerminal(int(f.Fd()))
	if t.isTerminal {
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
		t.Color = t.isTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return t
}

// SafeOutput returns an output that shows control characters instead of sending them to a terminal: servers, containers
// and other users choose much of what the plugin prints. isData is set for documents, which a program must read unchanged.
func SafeOutput(out io.Writer, color string, isData bool) io.Writer {
	t := NewTerminal(out, color)
	if isData && !t.isTerminal {
		return out
	}
	return &plaintext.Writer{Writer: out, Styles: t.Color}
}

// RawOutput returns the output of a SafeOutput.
func RawOutput(out io.Writer) io.Writer {
	if safe, ok := out.(*plaintext.Writer); ok {
		return safe.Writer
	}
	return out
}

// Colors and styles, by meaning.
const (
	ColorGood    = "32"
	ColorBad     = "31"
	ColorWarning = "33"
	StyleDim     = "2"
	StyleBold    = "1"
)

// Colorize adds color codes to a text if colors are enabled.
func (t Terminal) Colorize(color, text string) string {
	if !t.Color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}
