package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
)

// printer prints changes and notices. It fails if the output is closed.
type printer interface {
	printChange(Change) error
	printNotice(Notice) error
}

// printError is an error of the output.
type printError struct{ error }

func (e printError) Unwrap() error { return e.error }

func newPrinter(o cli.Output, out cli.Terminal, errOut io.Writer) printer {
	if o.IsMachineReadable() {
		return jsonPrinter{out}
	}
	return textPrinter{out, errOut}
}

// jsonPrinter prints one JSON object per line. Notices are printed in order with the changes, because
// programs that accumulate changes must know about a re-list.
type jsonPrinter struct{ out io.Writer }

func (l jsonPrinter) printChange(c Change) error { return l.write(c) }

func (l jsonPrinter) printNotice(n Notice) error {
	n.Header = cli.NewHeader("Notice")
	return l.write(n)
}

func (l jsonPrinter) write(value any) error {
	content, err := json.Marshal(value)
	if err == nil {
		_, err = l.out.Write(append(content, '\n'))
	}
	if err != nil {
		return printError{err}
	}
	return nil
}

// textPrinter prints text. Changes and gaps go to standard output, other notices to standard error.
type textPrinter struct {
	out    cli.Terminal
	errOut io.Writer
}

// indent is the indentation of fields.
const indent = "          "

func (t textPrinter) printChange(c Change) error {
	var b strings.Builder
	b.WriteString(t.out.Colorize(cli.StyleDim, formatTime(c.Time)) + "  " + t.out.Colorize(typeColors[c.Type], c.Type) + "  " + objectTitle(c.Object))
	if authors := objdiff.FormatManagers(c.Managers); authors != "" && c.Type != typeExists {
		b.WriteString("  by " + authors)
	}
	if c.Gap != nil {
		b.WriteString("  (missed after " + formatTime(c.Gap.Since) + ")")
	}
	b.WriteByte('\n')
	if c.Type == typeModified {
		for _, f := range c.Fields {
			b.WriteString(indent + f.Text(t.out.Width-len(indent)) + "\n")
		}
		if len(c.Fields) == 0 {
			b.WriteString(indent + "no field values changed, only managedFields\n")
		}
	}
	if _, err := io.WriteString(t.out, b.String()); err != nil {
		return printError{err}
	}
	return nil
}

func (t textPrinter) printNotice(n Notice) error {
	if n.Type != NoticeRelisted {
		fmt.Fprintln(t.errOut, n.Message)
		return nil
	}
	for i, line := range cli.Wrap(n.Message, t.out.Width-len(indent)) {
		lead := indent
		if i == 0 {
			lead = formatTime(n.Time) + "  "
		}
		if _, err := fmt.Fprintln(t.out, lead+t.out.Colorize(cli.ColorWarning, line)); err != nil {
			return printError{err}
		}
	}
	return nil
}

var typeColors = map[string]string{typeAdded: cli.ColorGood, typeModified: cli.ColorWarning, typeDeleted: cli.ColorBad, typeExists: cli.StyleDim}

func formatTime(t time.Time) string { return t.Local().Format(time.TimeOnly) }

func objectTitle(o Object) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}
