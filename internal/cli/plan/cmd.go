// Package plan implements kubectl holdfast plan, which prints the changes that applying a manifest would
// make in the cluster, and with --offline the order in which components are created and deleted.
//
// Safety rule: it writes nothing. All writes are dry runs with the permissions of the caller, and the
// planner of the operator decides on the changes. Values of Secrets and passwords of specs are never
// printed.
package plan

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	file, kustomize string
	output          cli.Output
	offline         bool
	exitCode        bool
}

// Command returns the plan command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "plan -f FILE|DIRECTORY | -k DIRECTORY",
		Short: "Preview the changes of a manifest",
		Long: `Preview the changes that applying a manifest with applications (AppStack, AppService, CloudManager)
would make in the cluster: created, changed, deleted and recreated objects, restarted pods, the rollout
order, and the effect on data. Nothing is written: the command runs the operator's planner on the state
of the cluster and sends dry runs to the API server with your permissions. The plan assumes that
components become ready.

With --offline it does not contact the cluster. It prints the order in which components are created and
deleted, and the components that would be applied at once in an empty cluster.

The exit code is 0 with or without changes, and 1 if an object would be rejected. With --exit-code it is
2 if there are changes.`,
		Example: `  kubectl holdfast plan -f shop.yaml
  kubectl holdfast plan -f manifests/
  kubectl holdfast plan -k overlays/production
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
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "Manifest file, which can contain several documents, directory with manifests, or - for standard input")
	cmd.Flags().StringVarP(&o.kustomize, "kustomize", "k", "", "Directory with a kustomization, which is built first")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "Print only the rollout order, without contacting the cluster")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with code 2 if there are changes")
	o.output.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

func (o options) validate() error {
	switch {
	case o.file == "" && o.kustomize == "":
		return errors.New("no manifest specified; use -f FILE, -f DIRECTORY or -k DIRECTORY, or -f - for standard input")
	case o.file != "" && o.kustomize != "":
		return errors.New("-f and -k cannot be combined; use one of them")
	}
	return o.output.Validate()
}

// run plans all applications of a manifest. An error of one application does not stop the others.
func run(ctx context.Context, env *cli.Env, o options, in io.Reader, out, errOut io.Writer) error {
	applications, err := o.readManifests(in, errOut)
	if o.offline {
		return errors.Join(err, planOffline(o, applications, out))
	}
	if len(applications) == 0 {
		return err
	}
	done := cli.Progress(errOut, "Planning with dry runs")
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
			return cli.ErrNotReady // maps to exit code 2
		}
	}
	return nil
}

// planOnline plans applications with the state of the cluster.
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
		if unreachable := cli.AsUnreachable(err); unreachable != nil {
			unreachable.Alternative = ", or preview the rollout order with --offline"
			return plans, unreachable
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %s/%s: %w", a.location, a.owner.Kind, a.owner.Namespace, a.owner.Name, err))
			continue
		}
		plans = append(plans, p)
	}
	return plans, errors.Join(errs...)
}
