package history

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
)

func run(ctx context.Context, env *cli.Env, o options, args []string, out, errOut io.Writer) error {
	defer cli.Progress(errOut, "Reading revisions")()
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		return err
	}
	all, err := reader.List(ctx, c, app)
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
		return fmt.Errorf(
			"%s has no revisions yet: the operator saves a revision when it applies a spec; "+
				"kubectl holdfast doctor checks whether the operator is running",
			appkind.Title(app))
	}
	if !slices.ContainsFunc(all, func(r reader.Revision) bool { return r.Current }) {
		fmt.Fprintf(errOut,
			"The current spec of %s is not listed: the operator saves a revision when it applies the spec, "+
				"but not while the application is suspended.\n", appkind.Title(app))
	}
	return printList(o.output, newList(app, all), env.Now(), env.Terminal(out))
}

// List is the machine-readable output.
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
	// Changes since the previous revision. The first revision has none.
	Changes []revision.SpecChange `json:"changes,omitempty"`
}

func newReference(app appkind.Application) Reference {
	return Reference{Kind: appkind.Of(app).Kind, Namespace: app.GetNamespace(), Name: app.GetName()}
}

func newList(app appkind.Application, all []reader.Revision) List {
	l := List{Header: cli.NewHeader("RevisionList"), Application: newReference(app)}
	for i, r := range all {
		item := Item{Revision: r.Number, Name: r.Name, Created: r.Created.UTC(), Healthy: r.Healthy, Current: r.Current}
		if i > 0 {
			item.Changes = revision.Diff(all[i-1].Spec, r.Spec)
		}
		l.Items = append(l.Items, item)
	}
	return l
}

// Spec is the machine-readable output of --revision.
type Spec struct {
	cli.Header  `json:",inline"`
	Application Reference     `json:"application"`
	Revision    int64         `json:"revision"`
	Spec        revision.Spec `json:"spec"`
}

func printSpec(o cli.Output, app appkind.Application, all []reader.Revision, number int64, out io.Writer) error {
	r, err := reader.Find(app, all, number)
	if err != nil {
		return err
	}
	spec := revision.Redact(r.Spec)
	switch {
	case o.IsMachineReadable():
		return o.Print(out, Spec{Header: cli.NewHeader("Revision"), Application: newReference(app), Revision: number, Spec: spec})
	case o.Format == cli.FormatName:
		fmt.Fprintln(out, objectName(r.Name))
		return nil
	}
	return (&cli.Output{Format: cli.FormatYAML}).Print(out, map[string]any{"spec": spec})
}

// Diff is the machine-readable output of --diff. To is nil for a comparison with the current spec.
type Diff struct {
	cli.Header  `json:",inline"`
	Application Reference             `json:"application"`
	From        int64                 `json:"from"`
	To          *int64                `json:"to,omitempty"`
	Changes     []revision.SpecChange `json:"changes"`
}

func printDiff(o cli.Output, app appkind.Application, all []reader.Revision, rangeArg string, out cli.Terminal) error {
	d := Diff{Header: cli.NewHeader("RevisionDiff"), Application: newReference(app), Changes: []revision.SpecChange{}}
	first, second, hasSecond := strings.Cut(rangeArg, ",")
	from, err := findRevision(app, all, first)
	if err != nil {
		return err
	}
	d.From = from.Number
	target, err := reader.CurrentSpec(app)
	if err != nil {
		return err
	}
	name := "the current spec"
	if hasSecond {
		to, err := findRevision(app, all, second)
		if err != nil {
			return err
		}
		d.To, target, name = &to.Number, to.Spec, fmt.Sprintf("revision %d", to.Number)
	}
	d.Changes = append(d.Changes, revision.Diff(from.Spec, target)...)
	switch {
	case o.IsMachineReadable():
		return o.Print(out, d)
	case o.Format == cli.FormatName:
		return fmt.Errorf("output format name is not supported with --diff; use -o table, json or yaml")
	case len(d.Changes) == 0:
		fmt.Fprintf(out, "%s: %s is the same as revision %d.\n", appkind.Title(app), name, d.From)
		return nil
	}
	fmt.Fprintf(out, "%s, from revision %d to %s\n\n", appkind.Title(app), d.From, name)
	cli.PrintChanges(d.Changes, out)
	return nil
}

func findRevision(app appkind.Application, all []reader.Revision, text string) (reader.Revision, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return reader.Revision{}, fmt.Errorf("invalid revision %q; use --diff N or --diff N,M", text)
	}
	return reader.Find(app, all, n)
}
