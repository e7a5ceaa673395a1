package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
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
	return WithPrefix(out, toComplete)
}

// flagCompletion is a completion function of a flag.
type flagCompletion = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completeFlag returns a completion function that reads the values of a flag from the cluster.
func (e *Env) completeFlag(read func(ctx context.Context, c client.Client, args []string) ([]string, error)) flagCompletion {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		c, err := e.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(completionContext(cmd), completionTimeout)
		defer cancel()
		values, _ := read(ctx, c, args) // errors result in no completions
		return WithPrefix(values, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// WithPrefix returns the words that start with a prefix.
func WithPrefix(words []string, prefix string) []string {
	return slices.DeleteFunc(words, func(word string) bool { return !strings.HasPrefix(word, prefix) })
}

// CompleteComponent completes flags with a component of the application.
func (e *Env) CompleteComponent(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.completeFlag(func(ctx context.Context, c client.Client, args []string) (names []string, err error) {
		app, err := e.FindApplication(ctx, c, args)
		if err != nil {
			return nil, err
		}
		for _, component := range appkind.Components(app) {
			names = append(names, component.Name)
		}
		return names, nil
	})(cmd, args, toComplete)
}

// CompleteRevision completes flags with a revision of the application.
func (e *Env) CompleteRevision(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.completeFlag(func(ctx context.Context, c client.Client, args []string) (numbers []string, err error) {
		app, err := e.FindApplication(ctx, c, args)
		if err != nil {
			return nil, err
		}
		revisions, err := reader.List(ctx, c, app)
		for _, r := range revisions {
			numbers = append(numbers, strconv.FormatInt(r.Number, 10))
		}
		return numbers, err
	})(cmd, args, toComplete)
}

// CompleteContainer completes flags with a container of the pods of the application.
func (e *Env) CompleteContainer(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.completeFlag(func(ctx context.Context, c client.Client, args []string) (names []string, err error) {
		app, err := e.FindApplication(ctx, c, args)
		if err != nil {
			return nil, err
		}
		var pods corev1.PodList
		err = c.List(ctx, &pods, client.InNamespace(app.GetNamespace()), kubeclient.ManagedByHoldfast(), client.MatchingLabels{appsapi.LabelInstance: app.GetName()})
		for i := range pods.Items {
			for _, container := range slices.Concat(pods.Items[i].Spec.InitContainers, pods.Items[i].Spec.Containers) {
				names = append(names, container.Name)
			}
		}
		slices.Sort(names)
		return slices.Compact(names), err
	})(cmd, args, toComplete)
}

// CompleteNamespace completes flags with a namespace.
func (e *Env) CompleteNamespace(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
	return e.completeFlag(func(ctx context.Context, c client.Client, _ []string) (names []string, err error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NamespaceList"))
		err = c.List(ctx, list)
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, err
	})(cmd, args, toComplete)
}

// RegisterCompletions completes the flags that several commands have.
func (e *Env) RegisterCompletions(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("namespace", e.CompleteNamespace) // fails only without the flag
	for _, c := range root.Commands() {
		if output := c.Flag("output"); output != nil {
			formats := cobra.FixedCompletions(output.Annotations[formatsAnnotation], cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
			_ = c.RegisterFlagCompletionFunc("output", formats) // the same
		}
	}
}

// completionContext returns the context of the command, which is nil during completion.
func completionContext(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}
