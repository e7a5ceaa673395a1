// Package plan is the verb plan: it tells what would change in the cluster if a manifest
// were applied, and with --offline in which order its application is created and deleted.
//
// Safety rule: it writes nothing. What it sends is a dry run, with the rights of the caller,
// and what it tells is decided by the planner of the operator. No value of a Secret and no
// password of a spec is printed.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options are the flags.
type options struct {
	file     string
	output   cli.Output
	offline  bool
	exitCode bool
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "plan -f FILE",
		Short: "Tell what would change in the cluster if a manifest were applied",
		Long: `Tell what would change in the cluster if a manifest with applications (AppStacks, AppServices,
CloudManagers) were applied: what is created, changed, deleted and made anew, which pods are
replaced, what waits for what, and what becomes of data. Nothing is written: the operator's
own planner decides on what is in the cluster, and the API server answers dry runs, all with
your rights. It assumes that what is started becomes ready.

With --offline no cluster is asked: it prints the order in which the application is created
and deleted, and what of it would be applied at once in an empty cluster.

The exit code is 0, also if there are changes, and 1 if something would be refused. With
--exit-code it is 2 if there are changes.`,
		Example: `  kubectl holdfast plan -f shop.yaml
  kubectl holdfast plan -f shop.yaml -o json --exit-code
  kubectl holdfast plan -f shop.yaml --offline`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			return run(cmd.Context(), env, o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "the manifest, or - for standard input; it may have several documents")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "ask no cluster, and print the order alone")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "end with 2 if there are changes")
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

func (o options) validate() error {
	if o.file == "" {
		return errors.New("no manifest given; name one with -f FILE, or give - for standard input")
	}
	return o.output.Validate()
}

// run reads a manifest and plans every application in it. One that cannot be planned does
// not hide the others.
func run(ctx context.Context, env *cli.Env, o options, in io.Reader, out, errOut io.Writer) error {
	applications, err := readManifest(o.file, in, errOut)
	if o.offline {
		return errors.Join(err, planOffline(o, applications, out))
	}
	if len(applications) == 0 {
		return err
	}
	done := cli.Progress(errOut, "asking the API server what would become of it")
	plans, planErr := planOnline(ctx, env, applications, errOut)
	done()
	errs := []error{err, planErr}
	if len(plans) > 0 {
		errs = append(errs, printPlans(env.Terminal(out), o.output, plans))
	}
	for _, p := range plans {
		errs = append(errs, p.rejection())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, p := range plans {
		if o.exitCode && p.hasChanges() {
			return cli.ErrNotReady // of all errors the one with this exit code
		}
	}
	return nil
}

// planOnline plans applications with what is in the cluster.
func planOnline(ctx context.Context, env *cli.Env, applications []declaredApp, errOut io.Writer) ([]Plan, error) {
	namespace, err := env.Namespace()
	if err != nil {
		return nil, err
	}
	c, err := env.Client()
	if err != nil {
		return nil, err
	}
	warnVersionSkew(ctx, c, env.Version, errOut)
	var plans []Plan
	var errs []error
	for _, a := range applications {
		if a.owner.Namespace == "" {
			a.owner.Namespace = namespace
		}
		p, err := newPlan(ctx, c, a)
		if utilnet.IsConnectionRefused(err) || utilnet.IsTimeout(err) {
			return plans, fmt.Errorf("%w; see whether the cluster is there, or ask none with --offline", err)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %s/%s: %w", a.location, a.owner.Kind, a.owner.Namespace, a.owner.Name, err))
			continue
		}
		plans = append(plans, p)
	}
	return plans, errors.Join(errs...)
}
