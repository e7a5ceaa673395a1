package drift

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// pageSize is the limit of each list request.
const pageSize = 500

// List is the machine-readable output.
type List struct {
	cli.Header `json:",inline"`
	Items      []Item `json:"items"`
}

// Item is a correction of one object.
type Item struct {
	Application             Reference `json:"application"`
	appsapi.DriftCorrection `json:",inline"`
}

// Reference names an application.
type Reference struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// newList returns the corrections of all applications, newest first.
func newList(apps []appkind.Application) List {
	l := List{Header: cli.NewHeader("DriftCorrectionList"), Items: []Item{}}
	for _, app := range apps {
		ref := Reference{Kind: appkind.Of(app).Kind, Namespace: app.GetNamespace(), Name: app.GetName()}
		for _, d := range app.ApplicationStatus().Drift {
			l.Items = append(l.Items, Item{ref, d})
		}
	}
	slices.SortStableFunc(l.Items, func(a, b Item) int {
		return cmp.Or(b.LastTime.Compare(a.LastTime.Time), cmp.Compare(a.Application.Namespace, b.Application.Namespace), cmp.Compare(a.Application.Name, b.Application.Name))
	})
	return l
}

// listApplications lists the applications of all kinds. hints name the kinds that could not be listed. It
// fails if no kind could be listed.
func listApplications(ctx context.Context, c client.Client, namespace string) (apps []appkind.Application, hints []string, err error) {
	discovered, discoveryErr := kubeclient.DiscoverKinds(ctx, c)
	if discoveryErr != nil {
		hints = append(hints, cli.DiscoveryHint(discoveryErr))
	}
	kinds := slices.Concat(appkind.Builtin, discovered)
	failed := 0
	for _, k := range kinds {
		listed, listErr := listKind(ctx, c, k, namespace)
		if listErr != nil {
			failed++
			err = listErr
			hints = append(hints, listErr.Error())
			continue
		}
		apps = append(apps, listed...)
	}
	if failed == len(kinds) {
		return nil, nil, err
	}
	return apps, hints, nil
}

func listKind(ctx context.Context, c client.Client, k *appkind.Kind, namespace string) ([]appkind.Application, error) {
	var apps []appkind.Application
	for continueToken := ""; ; {
		list := k.NewList()
		if err := c.List(ctx, list, &client.ListOptions{Namespace: namespace, Limit: pageSize, Continue: continueToken}); err != nil {
			return nil, fmt.Errorf("list %ss: %w", k.Kind, cli.WithHint(err))
		}
		_ = meta.EachListItem(list, func(obj runtime.Object) error {
			if app, ok := k.Application(obj); ok {
				apps = append(apps, app)
			}
			return nil
		})
		if continueToken = list.GetContinue(); continueToken == "" {
			return apps, nil
		}
	}
}
