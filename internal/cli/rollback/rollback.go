package rollback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/revisions"
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
	b, raw, err := read(ctx, c, app)
	done()
	if err != nil {
		return err
	}
	d, err := b.choose(o.revision)
	if err != nil {
		return err
	}
	if len(d.changes) == 0 {
		fmt.Fprintf(s.out, "%s has the spec of revision %d already, apart from what stays as it is; nothing to do.\n", cli.Title(b.app), d.to.Number)
		return nil
	}
	d.print(b.app, env.Now(), env.Terminal(s.out))
	raw.Object["spec"] = d.spec
	if err := cli.Write(ctx, c, cli.Title(b.app), raw, true); err != nil {
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
	if err := o.confirm(b.app, s); err != nil {
		return err
	}
	if err := cli.Write(ctx, c, cli.Title(b.app), raw, false); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n%s has the spec of revision %d again. %s\n", cli.Title(b.app), d.to.Number, next(b.app, raw))
	return nil
}

// read reads the revisions of an application, and its spec as it is stored.
func read(ctx context.Context, c client.Client, app cli.Application) (back, *unstructured.Unstructured, error) {
	if app.GetDeletionTimestamp() != nil {
		return back{}, nil, fmt.Errorf("%s is being deleted, and cannot go back; create it again from its manifest", cli.Title(app))
	}
	all, err := revisions.List(ctx, c, app)
	if err != nil {
		return back{}, nil, err
	}
	raw, err := cli.Raw(ctx, c, app)
	if err != nil {
		return back{}, nil, err
	}
	if raw.GetResourceVersion() != app.GetResourceVersion() && raw.GetGeneration() != app.GetGeneration() {
		return back{}, nil, fmt.Errorf("%s is being changed by somebody else right now; run the same again", cli.Title(app))
	}
	spec, _, err := unstructured.NestedMap(raw.Object, "spec")
	if err != nil {
		return back{}, nil, err
	}
	return back{app: app, now: spec, all: all}, raw, nil
}

// choose decides about the revision that is asked for; 0 is the newest healthy one with which
// something would be different.
func (b back) choose(number int64) (*decision, error) {
	if number != 0 {
		r, err := revisions.Find(b.app, b.all, number)
		if err != nil {
			return nil, err
		}
		return b.to(r)
	}
	for _, r := range slices.Backward(b.all) {
		if !r.Healthy || r.Current {
			continue
		}
		d, err := b.to(r)
		if err != nil || len(d.changes) > 0 {
			return d, err
		}
	}
	return nil, fmt.Errorf("%s has no earlier revision with which everything was ready and anything would be different; choose one with --to-revision: kubectl holdfast history %s -n %s lists them",
		cli.Title(b.app), b.app.GetName(), b.app.GetNamespace())
}

func (o options) confirm(app cli.Application, s streams) error {
	switch {
	case o.yes:
		return nil
	case !s.person:
		return errors.New("nobody is there to confirm it, so nothing was changed; give --yes to go back without a question, or --dry-run to only look")
	}
	fmt.Fprintln(s.errOut)
	return cli.Confirm(s.in, s.errOut, fmt.Sprintf("Give %s this spec?", cli.Title(app)))
}

// next is what to do afterwards.
func next(app cli.Application, raw *unstructured.Unstructured) string {
	if suspended, _, _ := unstructured.NestedBool(raw.Object, "spec", "suspend"); suspended {
		return fmt.Sprintf("It is suspended, so nothing happens before kubectl holdfast resume %s -n %s.", app.GetName(), app.GetNamespace())
	}
	return fmt.Sprintf("Follow it: kubectl holdfast wait %s -n %s", app.GetName(), app.GetNamespace())
}
