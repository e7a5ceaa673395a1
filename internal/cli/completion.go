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

	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// completionTimeout bounds the requests of a completion: the shell blocks until they return.
const completionTimeout = 3 * time.Second

// CompleteApplication is the ValidArgsFunction of commands that take NAME, KIND/NAME or KIND NAME.
// Errors result in no completions: the command reports them when it runs.
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
	discovered, _ := kubeclient.DiscoverKinds(ctx, c) // without this permission, only the built-in kinds are completed
	kinds := slices.Concat(appkind.Builtin, discovered)
	return completions(kinds, listNames(ctx, c, kinds, namespace), args, toComplete), cobra.ShellCompDirectiveNoFileComp
}

// listNames returns the names of the applications in a namespace, by kind. Kinds that cannot be listed
// have no names.
func listNames(ctx context.Context, c client.Reader, kinds []*appkind.Kind, namespace string) [][]string {
	names := make([][]string, len(kinds))
	var group errgroup.Group // no shared context: an error does not cancel the other lists
	for i, k := range kinds {
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
	_ = group.Wait() // kinds that fail are not completed
	return names
}

// completions returns the words that start with toComplete. names holds the names of each kind.
func completions(kinds []*appkind.Kind, names [][]string, args []string, toComplete string) []string {
	var out []string
	switch len(args) {
	case 0:
		count := map[string]int{}
		for i := range names {
			for _, name := range names[i] {
				count[name]++
			}
		}
		for i, k := range kinds {
			for _, name := range names[i] {
				// Applications with the same name need their kind.
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
		for i, k := range kinds {
			if slices.Contains(k.Aliases, strings.ToLower(args[0])) {
				out = append(out, names[i]...)
			}
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(out, func(word string) bool { return !strings.HasPrefix(word, toComplete) })
}

// CompleteComponent completes the flag --component.
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
	for _, component := range appkind.Components(app) {
		if strings.HasPrefix(component.Name, toComplete) {
			out = append(out, component.Name)
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completionContext returns the context of the command, which is nil during completion.
func completionContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
