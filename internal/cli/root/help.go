package root

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// group is a group of commands in the help text.
type group struct {
	title    string
	commands []*cobra.Command
}

// addGroups adds the commands with their groups. The global flags of kubectl have their own command, as in kubectl.
func addGroups(root *cobra.Command, groups ...group) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, c := range g.commands {
			c.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
	root.AddCommand(optionsCommand())
	root.SetUsageFunc(printUsage)
}

// optionsCommand returns the command that prints the global flags.
func optionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "options",
		Short:  "Print the flags that all commands accept",
		Args:   cobra.NoArgs,
		Hidden: true, // every help text names it
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "All commands accept these flags:\n\n%s", cmd.Root().PersistentFlags().FlagUsages())
		},
	}
}

// printUsage prints the usage of a command without the global flags.
func printUsage(c *cobra.Command) error {
	var b strings.Builder
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "Usage:\n  %s COMMAND\n", c.CommandPath())
		printCommands(&b, c)
	} else {
		fmt.Fprintf(&b, "Usage:\n  %s\n", c.UseLine())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if flags := c.LocalNonPersistentFlags(); flags.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsages())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more information about a command.", c.CommandPath())
	}
	fmt.Fprintf(&b, "\nUse \"%s options\" for the flags that all commands accept, such as --namespace and --context.\n", c.Root().CommandPath())
	_, err := io.WriteString(c.OutOrStderr(), b.String())
	return err
}

func printCommands(b *strings.Builder, c *cobra.Command) {
	for _, g := range c.Groups() {
		fmt.Fprintf(b, "\n%s:\n", g.Title)
		for _, sub := range c.Commands() {
			if sub.GroupID == g.ID && sub.IsAvailableCommand() {
				fmt.Fprintf(b, "  %-*s  %s\n", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
}
