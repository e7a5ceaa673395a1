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
	// interactive says whether somebody can be asked.
	interactive bool
}

func run(ctx context.Context, env *cli.Env, o options, args []string, s streams) error {
	done := cli.Progress(s.errOut, "Reading revisions")
	c, app, err := env.ResolveApplication(ctx, args)
	if err != nil {
		done()
		return err
	}
	past, raw, err := edit.NewRollbackPlanner(ctx, c, app)
	done()
	if err != nil {
		return cli.WithHint(err)
	}
	d, err := past.Plan(o.revision)
	if err != nil {
		return err
	}
	if len(d.Changes) == 0 {
		fmt.Fprintf(s.out, "%s has the spec of revision %d already, apart from what stays as it is; nothing to do.\n", application.Title(app), d.Target.Number)
		return nil
	}
	printRollback(d, app, env.Now(), env.Terminal(s.out))
	raw.Object["spec"] = d.Spec
	w := cli.NewWriter(c)
	w.DryRun = true
	if err := w.Write(ctx, application.Title(app), raw); err != nil {
		err = cli.WithHint(err)
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
		return cli.WithHint(err)
	}
	fmt.Fprintf(s.out, "\n%s has the spec of revision %d again. %s\n", application.Title(app), d.Target.Number, nextStep(app, raw))
	return nil
}

func (o options) confirm(app application.Application, s streams) error {
	switch {
	case o.yes:
		return nil
	case !s.interactive:
		return errors.New("nobody is there to confirm it, so nothing was changed; give --yes to go back without a question, or --dry-run to only look")
	}
	fmt.Fprintln(s.errOut)
	return cli.Confirm(s.in, s.errOut, fmt.Sprintf("Give %s this spec?", application.Title(app)))
}

// nextStep is what to do afterwards.
func nextStep(app application.Application, raw *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(raw.Object, "spec", "suspend"); suspended {
		return fmt.Sprintf("It is suspended, so nothing happens before kubectl holdfast resume %s -n %s.", app.GetName(), app.GetNamespace())
	}
	return cli.FollowHint(app)
}
