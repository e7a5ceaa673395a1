package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/application"
)

// completionTimeout is how long somebody who pressed the tabulator waits.
const completionTimeout = 3 * time.Second

// CompleteApplication is the ValidArgsFunction of verbs about one application: NAME,
// KIND/NAME or KIND NAME. What goes wrong is no completion: the verb itself will say it.
func (e *Env) CompleteApplication(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	namespace, err := e.Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := e.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(completionContext(cmd), completionTimeout)
	defer cancel()
	return completions(listNames(ctx, c, namespace), args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// listNames are the names of the applications of a namespace, for each kind. A kind that may
// not be listed has none.
func listNames(ctx context.Context, c client.Reader, namespace string) [][]string {
	names := make([][]string, len(application.Kinds))
	var group errgroup.Group // one that fails does not keep the others from being listed
	for i, k := range application.Kinds {
		group.Go(func() error {
			list := k.NewList()
			if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
				return err
			}
			return meta.EachListItem(list, func(o runtime.Object) error {
				if object, ok := o.(metav1.Object); ok {
					names[i] = append(names[i], object.GetName())
				}
				return nil
			})
		})
	}
	_ = group.Wait() // completion is a courtesy
	return names
}

// completions are the words that begin with what was typed. names are those of each of
// our kinds.
func completions(names [][]string, args []string, toComplete string) []string {
	var out []string
	switch len(args) {
	case 0:
		count := map[string]int{}
		for i := range names {
			for _, name := range names[i] {
				count[name]++
			}
		}
		for i, k := range application.Kinds {
			for _, name := range names[i] {
				// Two of one name can be told apart by their kinds only.
				if word, _, ok := strings.Cut(toComplete, "/"); ok && slices.Contains(k.Aliases, strings.ToLower(word)) {
					out = append(out, word+"/"+name)
				} else if count[name] > 1 {
					out = append(out, k.Aliases[1]+"/"+name)
				} else {
					out = append(out, name)
				}
			}
		}
	case 1:
		for i, k := range application.Kinds {
			if slices.Contains(k.Aliases, strings.ToLower(args[0])) {
				out = append(out, names[i]...)
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(out, func(word string) bool { return !strings.HasPrefix(word, toComplete) })
}

// CompleteComponent completes the flag --component of a verb about one application.
func (e *Env) CompleteComponent(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	namespace, err := e.Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := e.Client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(completionContext(cmd), completionTimeout)
	defer cancel()
	app, err := FindApplication(ctx, c, namespace, args)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, component := range application.Components(app) {
		if strings.HasPrefix(component.Name, toComplete) {
			out = append(out, component.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completionContext is that of the command, which has none while words are completed.
func completionContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
