// Package root builds the root command of the plugin.
package root

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/center"
	"github.com/holdfast-dev/holdfast/internal/cli/completion"
	"github.com/holdfast-dev/holdfast/internal/cli/doctor"
	"github.com/holdfast-dev/holdfast/internal/cli/drift"
	"github.com/holdfast-dev/holdfast/internal/cli/find"
	"github.com/holdfast-dev/holdfast/internal/cli/history"
	"github.com/holdfast-dev/holdfast/internal/cli/list"
	"github.com/holdfast-dev/holdfast/internal/cli/logs"
	"github.com/holdfast-dev/holdfast/internal/cli/plan"
	"github.com/holdfast-dev/holdfast/internal/cli/report"
	"github.com/holdfast-dev/holdfast/internal/cli/restart"
	"github.com/holdfast-dev/holdfast/internal/cli/rollback"
	"github.com/holdfast-dev/holdfast/internal/cli/rotate"
	"github.com/holdfast-dev/holdfast/internal/cli/runjob"
	"github.com/holdfast-dev/holdfast/internal/cli/scale"
	"github.com/holdfast-dev/holdfast/internal/cli/status"
	"github.com/holdfast-dev/holdfast/internal/cli/suspend"
	"github.com/holdfast-dev/holdfast/internal/cli/tree"
	"github.com/holdfast-dev/holdfast/internal/cli/ui"
	"github.com/holdfast-dev/holdfast/internal/cli/version"
	"github.com/holdfast-dev/holdfast/internal/cli/wait"
	"github.com/holdfast-dev/holdfast/internal/cli/watch"
	"github.com/holdfast-dev/holdfast/internal/cli/why"
)

// Command returns the root command of the plugin.
func Command(pluginVersion string) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true)
	env := &cli.Env{Getter: flags, Version: pluginVersion, Now: time.Now}
	cmd := &cobra.Command{
		Use:           "kubectl-holdfast",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl holdfast"},
		Short:         "Inspect and manage Holdfast applications",
		Long:          "Inspect and manage Holdfast applications.\n\nExit codes: 0 on success, 1 on an error, 2 if something is not ready.",
		Version:       pluginVersion,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"auto", "always", "never"}, env.Color) {
				return fmt.Errorf("--color %q is not supported; use auto, always or never", env.Color)
			}
			output := cmd.Flag("output")
			isData := output != nil && (&cli.Output{Format: output.Value.String()}).IsMachineReadable()
			cmd.SetOut(cli.SafeOutput(cmd.OutOrStdout(), env.Color, isData))
			cmd.SetErr(cli.SafeOutput(cmd.ErrOrStderr(), env.Color, false))
			return nil
		},
	}
	flags.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&env.Color, "color", "auto", "Colored output: auto, always or never. If NO_COLOR is set, auto means never")
	addGroups(cmd,
		group{"Inspect applications", []*cobra.Command{
			list.Command(env), status.Command(env), why.Command(env), tree.Command(env), logs.Command(env), find.Command(env), watch.Command(env), drift.Command(env), history.Command(env),
		}},
		group{"Change applications", []*cobra.Command{
			plan.Command(env), wait.Command(env), rollback.Command(env), suspend.Command(env), suspend.ResumeCommand(env), restart.Command(env),
			rotate.Command(env), runjob.Command(env), scale.Command(env),
		}},
		group{"Application center", []*cobra.Command{ui.Command(env), center.Command(env)}},
		group{"Installation and support", []*cobra.Command{
			doctor.Command(env), version.Command(env), report.Command(env), completion.Command(),
		}},
	)
	addSuggestions(cmd)
	env.RegisterCompletions(cmd)
	cli.ExplainUnreachable(cmd.Commands()...)
	return cmd
}
