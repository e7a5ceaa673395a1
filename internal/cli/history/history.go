package history

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	defer cli.Progress(errOut, "Reading revisions")()
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	all, err := revisions.List(ctx, c, app)
	if err != nil {
		return cli.WithHint(err)
	}
	switch {
	case o.revision != 0:
		return printSpec(o.output, app, all, o.revision, out)
	case o.diff != "":
		return printDiff(o.output, app, all, o.diff, env.Terminal(out))
	}
	if len(all) == 0 {
		return fmt.Errorf("%s has no revisions yet: the operator remembers a spec when it applies it; kubectl holdfast doctor tells whether it runs", application.Title(app))
	}
	if !slices.ContainsFunc(all, func(r revisions.Revision) bool { return r.Current }) {
		fmt.Fprintf(errOut, "The spec that %s has now is not among them: the operator remembers it when it applies it. While it is suspended, that waits.\n", application.Title(app))
	}
	return printList(o.output, newList(app, all), env.Now(), env.Terminal(out))
}

// List is the answer for programs.
type List struct {
	cli.Header  `json:",inline"`
	Application Reference `json:"application"`
	Items       []Item    `json:"items"`
}

// Reference names an application.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Item is a revision.
type Item struct {
	Revision int64     `json:"revision"`
	Name     string    `json:"name"`
	Created  time.Time `json:"created"`
	Healthy  bool      `json:"healthy"`
	Current  bool      `json:"current"`
	// Changes against the one before. The first has none.
	Changes []revisions.SpecChange `json:"changes,omitempty"`
}

func newReference(app application.Application) Reference {
	return Reference{Kind: application.KindOf(app), Namespace: app.GetNamespace(), Name: app.GetName()}
}

func newList(app application.Application, all []revisions.Revision) List {
	l := List{Header: cli.NewHeader("RevisionList"), Application: newReference(app)}
	for i, r := range all {
		item := Item{Revision: r.Number, Name: r.Name, Created: r.Created.UTC(), Healthy: r.Healthy, Current: r.Current}
		if i > 0 {
			item.Changes = revisions.Diff(all[i-1].Spec, r.Spec)
		}
		l.Items = append(l.Items, item)
	}
	return l
}

// Spec is a spec for programs.
type Spec struct {
	cli.Header  `json:",inline"`
	Application Reference      `json:"application"`
	Revision    int64          `json:"revision"`
	Spec        revisions.Spec `json:"spec"`
}

func printSpec(o cli.Output, app application.Application, all []revisions.Revision, number int64, out io.Writer) error {
	r, err := revisions.Find(app, all, number)
	if err != nil {
		return err
	}
	spec := revisions.Redact(r.Spec)
	switch {
	case o.IsMachineReadable():
		return o.Print(out, Spec{Header: cli.NewHeader("Revision"), Application: newReference(app), Revision: number, Spec: spec})
	case o.Format == cli.FormatName:
		fmt.Fprintln(out, objectName(r.Name))
		return nil
	}
	return (&cli.Output{Format: cli.FormatYAML}).Print(out, map[string]any{"spec": spec})
}

// Diff is a comparison for programs. To is nil when it is with the spec of now.
type Diff struct {
	cli.Header  `json:",inline"`
	Application Reference              `json:"application"`
	From        int64                  `json:"from"`
	To          *int64                 `json:"to,omitempty"`
	Changes     []revisions.SpecChange `json:"changes"`
}

func printDiff(o cli.Output, app application.Application, all []revisions.Revision, rangeArg string, out cli.Terminal) error {
	d := Diff{Header: cli.NewHeader("RevisionDiff"), Application: newReference(app), Changes: []revisions.SpecChange{}}
	first, second, hasSecond := strings.Cut(rangeArg, ",")
	from, err := findRevision(app, all, first)
	if err != nil {
		return err
	}
	d.From = from.Number
	target, err := revisions.CurrentSpec(app)
	if err != nil {
		return err
	}
	name := "the spec of now"
	if hasSecond {
		to, err := findRevision(app, all, second)
		if err != nil {
			return err
		}
		d.To, target, name = &to.Number, to.Spec, fmt.Sprintf("revision %d", to.Number)
	}
	d.Changes = append(d.Changes, revisions.Diff(from.Spec, target)...)
	switch {
	case o.IsMachineReadable():
		return o.Print(out, d)
	case o.Format == cli.FormatName:
		return fmt.Errorf("a comparison has no name; use -o table, json or yaml")
	case len(d.Changes) == 0:
		fmt.Fprintf(out, "%s: %s is the same as revision %d.\n", application.Title(app), name, d.From)
		return nil
	}
	fmt.Fprintf(out, "%s, from revision %d to %s\n\n", application.Title(app), d.From, name)
	cli.PrintChanges(d.Changes, out)
	return nil
}

func findRevision(app application.Application, all []revisions.Revision, text string) (revisions.Revision, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return revisions.Revision{}, fmt.Errorf("%q is no number of a revision; give --diff N or --diff N,M", text)
	}
	return revisions.Find(app, all, n)
}
