// Package drift implements kubectl holdfast drift, which lists the drift corrections that the operator
// reported in the status of applications.
//
// Safety rule: it only reads. The status contains no values that can be secret.
package drift

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// options has the flags.
type options struct {
	output        cli.Output
	allNamespaces bool
	noHeaders     bool
}

// Command returns the drift command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "drift [APPLICATION]",
		Short: "List the drift that the operator corrected",
		Long: `List the last corrections of objects that another client changed or deleted, newest first: the field with
the drifted and the restored value, the field manager that changed it, and the number of corrections.
Without an application, list those of all applications in the namespace.

The operator reports an object at most once a minute. A removed field and a deleted object have no
field manager.`,
		Example: `  kubectl holdfast drift
  kubectl holdfast drift shop
  kubectl holdfast drift -A -o json`,
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.allNamespaces && len(args) > 0 {
				return errors.New("-A lists the drift of all applications; omit the application, or use -n instead of -A")
			}
			if err := o.output.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the drift of applications in all namespaces")
	f.BoolVar(&o.noHeaders, "no-headers", false, "Omit the header row")
	o.output.AddFlag(f, cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatJSONPath)
	return cmd
}

func (o *options) run(ctx context.Context, env *cli.Env, args []string, out, errOut io.Writer) error {
	namespace, err := env.Namespace()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		namespace = ""
	}
	c, err := env.Client()
	if err != nil {
		return err
	}
	done := cli.Progress(errOut, "Reading applications")
	var apps []appkind.Application
	var hints []string
	if len(args) > 0 {
		var app appkind.Application
		app, err = cli.FindApplication(ctx, c, namespace, args)
		apps = append(apps, app)
	} else {
		apps, hints, err = listApplications(ctx, c, namespace)
	}
	done()
	if err != nil {
		return err
	}
	for _, hint := range hints {
		fmt.Fprintf(errOut, "Not listed: %s\n", hint)
	}
	scope := "of applications in namespace " + namespace
	switch {
	case len(args) > 0:
		scope = "of " + appkind.Title(apps[0])
	case o.allNamespaces:
		scope = "of applications in any namespace"
	}
	return o.print(newList(apps), scope, len(args) == 0, env.Now(), env.Terminal(out), errOut)
}
