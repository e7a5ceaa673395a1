package watch

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// completionTimeout bounds the list of names: the shell blocks until it returns.
const completionTimeout = 3 * time.Second

// complete returns the kinds that can be watched, or the names of the objects of a kind. Errors result in no
// completions.
func complete(env *cli.Env, args []string) (words []string) {
	switch len(args) {
	case 0:
		words = watchableKinds(env)
	case 1:
		words = objectNames(env, args[0])
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// watchableKinds returns the resources that support watch, with their group except for core.
func watchableKinds(env *cli.Env) (names []string) {
	discovery, err := env.Getter.ToDiscoveryClient()
	if err != nil {
		return nil
	}
	lists, _ := discovery.ServerPreferredResources() // also returned if a group is not available
	for _, list := range lists {
		gv, _ := schema.ParseGroupVersion(list.GroupVersion)
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "watch") {
				names = append(names, gv.WithResource(r.Name).GroupResource().String())
			}
		}
	}
	return names
}

func objectNames(env *cli.Env, kind string) (names []string) {
	config, err := env.Config()
	if err != nil {
		return nil
	}
	objects, _, _, err := (&target{resourceArg: kind}).newSource(env, config)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
	defer cancel()
	list, err := objects.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}
