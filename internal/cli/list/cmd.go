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
	"github.com/holdfast-dev/holdfast/internal/cli/look"
)

// options are the flags.
type options struct {
	cli.Output
	everywhere bool
	selector   string
	noHeaders  bool
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
			if err := o.Check(); err != nil {
				return err
			}
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatPath)
	cmd.Flags().BoolVarP(&o.everywhere, "all-namespaces", "A", false, "of all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "only those with these labels")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "without the names of the columns")
	return cmd
}

// answer is a list for programs.
type answer struct {
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
	if o.everywhere {
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
	items, err := collect(ctx, c, namespace, selector)
	done()
	if err != nil {
		return err
	}
	return o.print(env, items, namespace, out, errOut)
}

// page is how many are read at a time.
const page = 500

// collect reads the applications of all kinds.
func collect(ctx context.Context, c client.Client, namespace string, selector labels.Selector) ([]item, error) {
	found := make([][]item, len(application.Kinds))
	group, ctx := errgroup.WithContext(ctx)
	for i, k := range application.Kinds {
		group.Go(func() error {
			more := ""
			for {
				list := k.NewList()
				err := c.List(ctx, list, &client.ListOptions{Namespace: namespace, LabelSelector: selector, Limit: page, Continue: more})
				if err != nil {
					return fmt.Errorf("list %ss: %w", k.Name, cli.Explained(err))
				}
				_ = meta.EachListItem(list, func(obj runtime.Object) error {
					found[i] = append(found[i], itemOf(obj.(application.Application)))
					return nil
				})
				if more = list.GetContinue(); more == "" {
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

func itemOf(app application.Application) item {
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
	case o.Machine():
		return o.Print(out, answer{Header: cli.NewHeader("ApplicationList"), Items: append([]item{}, items...)})
	case o.Format == cli.FormatName:
		for _, it := range items {
			fmt.Fprintf(out, "%s.%s/%s\n", strings.ToLower(it.Kind), appsapi.GroupName, it.Name)
		}
		return nil
	case len(items) == 0:
		where := "in namespace " + namespace
		if namespace == "" {
			where = "in any namespace"
		}
		fmt.Fprintf(errOut, "There is no application %s; config/samples has some to begin with.\n", where)
		return nil
	}
	t := cli.Table{Columns: []string{"NAME", "KIND", "READY", "PARTS", "AGE", "WHY"}, NoHeaders: o.noHeaders, Below: true}
	terminal := env.Terminal(out)
	ready := 2
	for _, it := range items {
		why := it.Message
		if it.Ready && it.Reason == appsapi.ReasonReconciled && o.Format != cli.FormatWide {
			why = ""
		}
		row := []string{it.Name, it.Kind, yesNo(it.Ready), cli.OrNone(it.Components), look.Age(it.Created, env.Now()), why}
		if o.Format == cli.FormatWide {
			row = slices.Insert(row, 5, it.Reason, cli.OrNone(strings.Join(it.Causes, ",")))
		}
		if o.everywhere {
			row = slices.Insert(row, 0, it.Namespace)
		}
		t.Rows = append(t.Rows, row)
	}
	if o.Format == cli.FormatWide {
		t.Columns = slices.Insert(t.Columns, 5, "REASON", "CAUSES")
	}
	if o.everywhere {
		t.Columns = slices.Insert(t.Columns, 0, "NAMESPACE")
		ready++
	}
	t.Paint = func(column int, text string) string {
		switch {
		case column != ready:
			return text
		case text == yesNo(true):
			return terminal.Paint(cli.Good, text)
		}
		return terminal.Paint(cli.Bad, text)
	}
	t.Print(terminal)
	return nil
}

func yesNo(b bool) string {
	if b {
		return "True"
	}
	return "False"
}
