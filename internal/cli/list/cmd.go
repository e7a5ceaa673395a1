// Package list is the verb list: all applications, and in one sentence each what is wrong.
//
// Safety rule: it repeats what the operator says; a kind that may not be listed is said to be
// missing, not left out.
package list

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
)

// options are the flags.
type options struct {
	cli.Output
	allNamespaces bool
	selector      string
	noHeaders     bool
}

// Command is the verb.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls", "get"},
		Short:   "List applications, and why any is not ready",
		Example: `  kubectl holdfast list -A
  kubectl holdfast list -l team=shop -o wide`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only those with these labels")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "without the names of the columns")
	return cmd
}

// applicationList is a list for programs.
type applicationList struct {
	cli.Header `json:",inline"`
	Items      []item `json:"items"`
}

// item is an application.
type item struct {
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	Ready      bool      `json:"ready"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	Components string    `json:"components,omitempty"`
	Causes     []string  `json:"causes,omitempty"`
	Created    time.Time `json:"created"`
}

func (o *options) run(ctx context.Context, env *cli.Env, out, errOut io.Writer) error {
	namespace, err := env.Namespace()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		namespace = ""
	}
	selector, err := labels.Parse(o.selector)
	if err != nil {
		return fmt.Errorf("%w; a selector looks like -l team=shop", err)
	}
	c, err := env.Client()
	if err != nil {
		return err
	}
	done := cli.Progress(errOut, "Listing applications")
	items, err := listApplications(ctx, c, namespace, selector)
	done()
	if err != nil {
		return err
	}
	return o.print(env, items, namespace, out, errOut)
}

// pageSize is how many are read at a time.
const pageSize = 500

// listApplications reads the applications of all kinds.
func listApplications(ctx context.Context, c client.Client, namespace string, selector labels.Selector) ([]item, error) {
	found := make([][]item, len(application.Kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range application.Kinds {
		group.Go(func() error {
			continueToken := ""
			for {
				list := k.NewList()
				err := c.List(ctx, list, &client.ListOptions{Namespace: namespace, LabelSelector: selector, Limit: pageSize, Continue: continueToken})
				if err != nil {
					return fmt.Errorf("list %ss: %w", k.Name, cli.WithHint(err))
				}
				_ = meta.EachListItem(list, func(obj runtime.Object) error {
					found[i] = append(found[i], newItem(obj.(application.Application)))
					return nil
				})
				if continueToken = list.GetContinue(); continueToken == "" {
					return nil
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(found...)
	slices.SortFunc(all, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return all, nil
}

func newItem(app application.Application) item {
	s := app.ApplicationStatus()
	it := item{
		Kind: application.KindOf(app), Namespace: app.GetNamespace(), Name: app.GetName(), Created: app.GetCreationTimestamp().Time,
		Reason: "Unknown", Message: "The operator has not looked at it yet; kubectl holdfast doctor tells whether it runs",
	}
	if c := meta.FindStatusCondition(s.Conditions, appsapi.ConditionReady); c != nil {
		current := s.ObservedGeneration == app.GetGeneration()
		it.Ready, it.Reason, it.Message = c.Status == metav1.ConditionTrue && current, c.Reason, c.Message
		if !current {
			it.Reason, it.Message = appsapi.ReasonProgressing, "The operator has not looked at the latest change yet"
		}
	}
	switch o := app.(type) {
	case *appsapi.AppService:
		it.Components = o.Status.ReplicasReady
	case interface{ StackStatus() *appsapi.StackStatus }:
		it.Components = o.StackStatus().ComponentsReady
	}
	for _, c := range s.Causes {
		it.Causes = append(it.Causes, c.Code)
	}
	return it
}

func (o *options) print(env *cli.Env, items []item, namespace string, out, errOut io.Writer) error {
	switch {
	case o.IsMachineReadable():
		return o.Print(out, applicationList{Header: cli.NewHeader("ApplicationList"), Items: append([]item{}, items...)})
	case o.Format == cli.FormatName:
		for _, it := range items {
			fmt.Fprintf(out, "%s.%s/%s\n", strings.ToLower(it.Kind), appsapi.GroupName, it.Name)
		}
		return nil
	case len(items) == 0:
		scope := "in namespace " + namespace
		if namespace == "" {
			scope = "in any namespace"
		}
		fmt.Fprintf(errOut, "There is no application %s; config/samples has some to begin with.\n", scope)
		return nil
	}
	t := cli.Table{Columns: []string{"NAME", "KIND", "READY", "PARTS", "AGE", "WHY"}, NoHeaders: o.noHeaders, StackLastColumn: true}
	terminal := env.Terminal(out)
	readyColumn := 2
	for _, it := range items {
		message := it.Message
		if it.Ready && it.Reason == appsapi.ReasonReconciled && o.Format != cli.FormatWide {
			message = ""
		}
		row := []string{it.Name, it.Kind, conditionStatus(it.Ready), cli.OrDash(it.Components), collect.Age(it.Created, env.Now()), message}
		if o.Format == cli.FormatWide {
			row = slices.Insert(row, 5, it.Reason, cli.OrDash(strings.Join(it.Causes, ",")))
		}
		if o.allNamespaces {
			row = slices.Insert(row, 0, it.Namespace)
		}
		t.Rows = append(t.Rows, row)
	}
	if o.Format == cli.FormatWide {
		t.Columns = slices.Insert(t.Columns, 5, "REASON", "CAUSES")
	}
	if o.allNamespaces {
		t.Columns = slices.Insert(t.Columns, 0, "NAMESPACE")
		readyColumn++
	}
	t.Colorize = func(column int, text string) string {
		switch {
		case column != readyColumn:
			return text
		case text == conditionStatus(true):
			return terminal.Colorize(cli.ColorGood, text)
		}
		return terminal.Colorize(cli.ColorBad, text)
	}
	t.Print(terminal)
	return nil
}

func conditionStatus(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
