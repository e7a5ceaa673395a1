package rollback

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

// streams are where answers are read and printed.
type streams struct {
	in          io.Reader
	out, errOut io.Writer
	// person says whether somebody can be asked.
	person bool
}

func run(ctx context.Context, env *cli.Env, o options, args []string, s streams) error {
	done := cli.Progress(s.errOut, "Reading revisions")
	c, app, err := env.Application(ctx, args)
	if err != nil {
		done()
		return err
	}
	past, raw, err := edit.ReadPast(ctx, c, app)
	done()
	if err != nil {
		return cli.Explained(err)
	}
	d, err := past.Choose(o.revision)
	if err != nil {
		return err
	}
	if len(d.Changes) == 0 {
		fmt.Fprintf(s.out, "%s has the spec of revision %d already, apart from what stays as it is; nothing to do.\n", application.Title(app), d.To.Number)
		return nil
	}
	show(d, app, env.Now(), env.Terminal(s.out))
	raw.Object["spec"] = d.Spec
	w := cli.Writer(c)
	w.DryRun = true
	if err := w.Write(ctx, application.Title(app), raw); err != nil {
		err = cli.Explained(err)
		if o.dryRun && apierrors.IsForbidden(err) {
			fmt.Fprintf(s.errOut, "\nNot checked by the API server: %v\n", err)
			return nil
		}
		return err
	}
	if o.dryRun {
		fmt.Fprintln(s.out, "\nNothing was changed; without --dry-run it will be.")
		return nil
	}
	if err := o.confirm(app, s); err != nil {
		return err
	}
	w.DryRun = false
	if err := w.Write(ctx, application.Title(app), raw); err != nil {
		return cli.Explained(err)
	}
	fmt.Fprintf(s.out, "\n%s has the spec of revision %d again. %s\n", application.Title(app), d.To.Number, next(app, raw))
	return nil
}

func (o options) confirm(app application.Application, s streams) error {
	switch {
	case o.yes:
		return nil
	case !s.person:
		return errors.New("nobody is there to confirm it, so nothing was changed; give --yes to go back without a question, or --dry-run to only look")
	}
	fmt.Fprintln(s.errOut)
	return cli.Confirm(s.in, s.errOut, fmt.Sprintf("Give %s this spec?", application.Title(app)))
}

// next is what to do afterwards.
func next(app application.Application, raw *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(raw.Object, "spec", "suspend"); suspended {
		return fmt.Sprintf("It is suspended, so nothing happens before kubectl holdfast resume %s -n %s.", app.GetName(), app.GetNamespace())
	}
	return cli.FollowIt(app)
}
