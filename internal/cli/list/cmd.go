// Package list implements kubectl holdfast list, which lists applications and why they are not ready.
//
// Safety rule: it prints the status that the operator reported. Kinds that could not be listed are
// reported, not silently omitted.
package list

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/collect"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// options has the flags.
type options struct {
	cli.Output
	allNamespaces bool
	selector      string
	noHeaders     bool
	// kind and name select applications; empty means all.
	kind, name string
}

// Command returns the list command.
func Command(env *cli.Env) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:     "list [KIND] [NAME]",
		Aliases: []string{"ls", "get"},
		Short:   "List applications and why they are not ready",
		Long: `List the applications in a namespace, or with -A in all namespaces, with their Ready condition. The
output shows the status that the operator reported; use kubectl holdfast why for details.`,
		Example: `  kubectl holdfast list -A
  kubectl holdfast list -l team=shop -o wide
  kubectl holdfast list shop
  kubectl holdfast list appstacks`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: env.CompleteApplication,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.Validate(); err != nil {
				return err
			}
			o.parse(args)
			return o.run(cmd.Context(), env, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlag(cmd.Flags(), cli.FormatTable, cli.FormatWide, cli.FormatJSON, cli.FormatYAML, cli.FormatName, cli.FormatJSONPath)
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List applications in all namespaces")
	cmd.Flags().StringVarP(&o.selector, "selector", "l", "", "Label selector, for example team=shop")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Omit the header row")
	return cmd
}

// parse parses NAME, KIND, KIND NAME or KIND/NAME.
func (o *options) parse(args []string) {
	if len(args) == 0 {
		return
	}
	kind, name, hasKind := strings.Cut(strings.Join(args, "/"), "/")
	_, unknown := appkind.ByAlias(kind)
	switch {
	case hasKind:
		o.kind, o.name = kind, name
	case unknown == nil:
		o.kind = kind
	default:
		o.name = kind
	}
}

// applicationList is the machine-readable output.
type applicationList struct {
	cli.Header `json:",inline"`
	Items      []item `json:"items"`
}

// item is an application.
type item struct {
	// Group is the API group of kinds of other operators.
	Group      string    `json:"group,omitempty"`
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
		return fmt.Errorf("%w; use a selector such as -l team=shop", err)
	}
	c, err := env.Client()
	if err != nil {
		return err
	}
	done := cli.Progress(errOut, "Listing applications")
	l := &lister{client: c, namespace: namespace, selector: selector, kind: o.kind, name: o.name}
	err = l.run(ctx)
	done()
	if err != nil {
		return err
	}
	for _, hint := range l.hints {
		fmt.Fprintf(errOut, "Not listed: %s\n", hint)
	}
	if o.name != "" && len(l.items) == 0 {
		return fmt.Errorf("%s not found%s; kubectl holdfast list -A shows all applications", strings.TrimLeft(o.kind+"/"+o.name, "/"), inNamespace(namespace))
	}
	return o.print(env, l.items, namespace, out, errOut)
}

// inNamespace returns the scope of a list within a sentence.
func inNamespace(namespace string) string {
	if namespace == "" {
		return " in any namespace"
	}
	return " in namespace " + namespace
}

// pageSize is the limit of each list request.
const pageSize = 500

// lister reads the applications of all kinds.
type lister struct {
	client    client.Client
	namespace string
	selector  labels.Selector
	// kind and name select applications; empty means all.
	kind, name string

	mu    sync.Mutex
	items []item
	// hints name the kinds that could not be listed.
	hints []string
	// notServed are the errors of built-in kinds that the API server does not serve, forbidden those of kinds
	// that the caller cannot list.
	notServed, forbidden []error
}

func (l *lister) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	builtin := l.selected(appkind.Builtin)
	for _, k := range builtin {
		group.Go(func() error {
			err := l.list(ctx, k)
			switch {
			case apierrors.IsNotFound(err): // an operator built with the engine can run without Holdfast's CRDs
				l.skip(&l.notServed, err)
			case apierrors.IsForbidden(err):
				l.skip(&l.forbidden, err)
				l.addHint(k.Kind + "s: no permission to list")
			default:
				return err
			}
			return nil
		})
	}
	anyDiscovered := false
	group.Go(func() error {
		discovered, err := kubeclient.DiscoverKinds(ctx, l.client)
		if err != nil {
			l.addHint(cli.DiscoveryHint(err))
			return nil
		}
		anyDiscovered = len(discovered) > 0
		for _, k := range l.selected(discovered) {
			group.Go(func() error {
				if err := l.list(ctx, k); err != nil {
					l.addHint(err.Error())
				}
				return nil
			})
		}
		return nil
	})
	err := group.Wait()
	switch {
	case err != nil || anyDiscovered:
	case len(l.notServed) > 0:
		err = l.notServed[0]
	case len(builtin) > 0 && len(l.forbidden) == len(builtin): // nothing was listed
		err = l.forbidden[0]
	}
	slices.SortFunc(l.items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	slices.Sort(l.hints)
	return err
}

// selected returns the kinds that are listed.
func (l *lister) selected(kinds []*appkind.Kind) []*appkind.Kind {
	if l.kind == "" {
		return kinds
	}
	if k := appkind.Find(kinds, l.kind); k != nil {
		return []*appkind.Kind{k}
	}
	return nil
}

func (l *lister) list(ctx context.Context, k *appkind.Kind) error {
	continueToken := ""
	for {
		list := k.NewList()
		o := &client.ListOptions{Namespace: l.namespace, LabelSelector: l.selector, Limit: pageSize, Continue: continueToken}
		if l.name != "" {
			o.FieldSelector = fields.OneTermEqualSelector("metadata.name", l.name)
		}
		err := l.client.List(ctx, list, o)
		if err != nil {
			return fmt.Errorf("list %ss: %w", k.Kind, cli.WithHint(err))
		}
		l.add(k, list)
		if continueToken = list.GetContinue(); continueToken == "" {
			return nil
		}
	}
}

func (l *lister) add(k *appkind.Kind, list appkind.List) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = meta.EachListItem(list, func(obj runtime.Object) error {
		if app, ok := k.Application(obj); ok {
			l.items = append(l.items, newItem(app))
		}
		return nil
	})
}

func (l *lister) skip(errs *[]error, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*errs = append(*errs, err)
}

func (l *lister) addHint(hint string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hints = append(l.hints, hint)
}

func newItem(app appkind.Application) item {
	s := app.ApplicationStatus()
	it := item{
		Kind: appkind.Of(app).Kind, Namespace: app.GetNamespace(), Name: app.GetName(), Created: app.GetCreationTimestamp().Time,
		Reason: "Unknown", Message: "Not observed by the operator yet; kubectl holdfast doctor checks whether the operator is running",
	}
	if c := meta.FindStatusCondition(s.Conditions, appsapi.ConditionReady); c != nil {
		current := s.ObservedGeneration == app.GetGeneration()
		it.Ready, it.Reason, it.Message = c.Status == metav1.ConditionTrue && current, c.Reason, c.Message
		if !current {
			it.Reason, it.Message = appsapi.ReasonProgressing, "The operator has not observed the latest change yet"
		} else if rotating := appkind.Rotating(app); rotating != nil && it.Ready {
			it.Reason, it.Message = rotating.Reason, rotating.Message
		}
	}
	kind := appkind.Of(app)
	it.Components = kind.ReadyCount(app)
	if kind.Discovered {
		it.Group = kind.Group
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
			fmt.Fprintf(out, "%s.%s/%s\n", strings.ToLower(it.Kind), cmp.Or(it.Group, appsapi.GroupName), it.Name)
		}
		return nil
	case len(items) == 0:
		fmt.Fprintf(errOut, "No applications found%s; config/samples has examples.\n", inNamespace(namespace))
		return nil
	}
	t := cli.Table{Columns: []string{"NAME", "KIND", "READY", "COMPONENTS", "AGE", "MESSAGE"}, NoHeaders: o.noHeaders, StackLastColumn: true}
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
