package watch

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/fields"
)

// printer tells what was seen. It fails when nobody reads any more.
type printer interface {
	change(Change) error
	notice(Notice) error
}

// printError is a failure to print.
type printError struct{ error }

func (e printError) Unwrap() error { return e.error }

func newPrinter(o cli.Output, out cli.Terminal, errOut io.Writer) printer {
	if o.Machine() {
		return lines{out}
	}
	return text{out, errOut}
}

// lines prints one JSON object per line, and notices among the changes, in their order: for
// a program that adds changes up, a re-list is one of them.
type lines struct{ out io.Writer }

func (l lines) change(c Change) error { return l.write(c) }

func (l lines) notice(n Notice) error {
	n.Header = cli.NewHeader("Notice")
	return l.write(n)
}

func (l lines) write(value any) error {
	content, err := json.Marshal(value)
	if err == nil {
		_, err = l.out.Write(append(content, '\n'))
	}
	if err != nil {
		return printError{err}
	}
	return nil
}

// text prints for people. What belongs to the story is on standard output: also, that it has
// a gap.
type text struct {
	out    cli.Terminal
	errOut io.Writer
}

// indent is where the fields of a change begin.
const indent = "          "

func (t text) change(c Change) error {
	var b strings.Builder
	b.WriteString(t.out.Paint(cli.Dim, clock(c.Time)) + "  " + t.out.Paint(colours[c.Type], c.Type) + "  " + title(c.Object))
	if by := fields.Authors(c.Managers); by != "" && c.Type != typeExists {
		b.WriteString("  by " + by)
	}
	if c.Missed != nil {
		b.WriteString("  (missed, after " + clock(c.Missed.Since) + ")")
	}
	b.WriteByte('\n')
	if c.Type == typeModified {
		for _, f := range c.Fields {
			b.WriteString(indent + f.Text(t.out.Width-len(indent)) + "\n")
		}
		if len(c.Fields) == 0 {
			b.WriteString(indent + "no field changed, only who owns them\n")
		}
	}
	if _, err := io.WriteString(t.out, b.String()); err != nil {
		return printError{err}
	}
	return nil
}

func (t text) notice(n Notice) error {
	if n.Type != NoticeRelisted {
		fmt.Fprintln(t.errOut, n.Message)
		return nil
	}
	for i, line := range cli.Wrap(n.Message, t.out.Width-len(indent)) {
		lead := indent
		if i == 0 {
			lead = clock(n.Time) + "  "
		}
		if _, err := fmt.Fprintln(t.out, lead+t.out.Paint(cli.Busy, line)); err != nil {
			return printError{err}
		}
	}
	return nil
}

var colours = map[string]string{typeAdded: cli.Good, typeModified: cli.Busy, typeDeleted: cli.Bad, typeExists: cli.Dim}

func clock(t time.Time) string { return t.Local().Format(time.TimeOnly) }

func title(o Object) string {
	if o.Namespace == "" {
		return o.Kind + " " + o.Name
	}
	return fmt.Sprintf("%s %s/%s", o.Kind, o.Namespace, o.Name)
}
