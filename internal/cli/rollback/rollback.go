package rollback

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/edit"
)

// streams are the input and outputs of the command.
type streams struct {
	in          io.Reader
	out, errOut io.Writer
	// interactive is set if the user can answer questions.
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
		fmt.Fprintf(s.out, "%s already has the spec of revision %d, except for fields that a rollback does not change; nothing to do.\n",
			appkind.Title(app), d.Target.Number)
		return nil
	}
	printRollback(d, app, env.Now(), env.Terminal(s.out))
	raw.Object["spec"] = d.Spec
	w := cli.NewWriter(c)
	w.DryRun = true
	if err := w.Write(ctx, appkind.Title(app), raw); err != nil {
		err = cli.WithHint(err)
		if o.dryRun && apierrors.IsForbidden(err) {
			fmt.Fprintf(s.errOut, "\nNot checked by the API server: %v\n", err)
			return nil
		}
		return err
	}
	if o.dryRun {
		fmt.Fprintln(s.out, "\nDry run: nothing was changed. To roll back, run the command without --dry-run.")
		return nil
	}
	if err := o.confirm(app, s); err != nil {
		return err
	}
	w.DryRun = false
	if err := w.Write(ctx, appkind.Title(app), raw); err != nil {
		return cli.WithHint(err)
	}
	fmt.Fprintf(s.out, "\n%s was rolled back to revision %d. %s\n", appkind.Title(app), d.Target.Number, nextStep(app, raw))
	return nil
}

func (o options) confirm(app appkind.Application, s streams) error {
	switch {
	case o.yes:
		return nil
	case !s.interactive:
		return errors.New("not a terminal: use --yes to confirm or --dry-run to preview; nothing was changed")
	}
	fmt.Fprintln(s.errOut)
	return cli.Confirm(s.in, s.errOut, fmt.Sprintf("Roll back %s?", appkind.Title(app)))
}

// nextStep returns the next step after a rollback.
func nextStep(app appkind.Application, raw *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(raw.Object, "spec", "suspend"); suspended {
		return fmt.Sprintf("It is suspended: the change takes effect after kubectl holdfast resume %s -n %s.", app.GetName(), app.GetNamespace())
	}
	return cli.FollowHint(app)
}
