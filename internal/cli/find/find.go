package find

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/cli"
)

// Usage is an object of an application that uses what was looked for.
type Usage struct {
	Namespace   string                   `json:"namespace"`
	Application application.ComponentRef `json:"application"`
	Object      appsapi.ObjectReference  `json:"object"`
	Matches     []Match                  `json:"found"`
}

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	namespace, scope := "", "all namespaces"
	if !o.allNamespaces {
		if namespace, err = env.Namespace(); err != nil {
			return err
		}
		scope = "namespace " + namespace
	}
	done := cli.Progress(errOut, "Looking through the applications of "+scope)
	uses, err := o.find(ctx, c, namespace)
	done()
	if err != nil {
		return err
	}
	if len(uses) == 0 && !o.output.IsMachineReadable() {
		hint := "; -A looks in all namespaces"
		if o.allNamespaces {
			hint = ""
		}
		fmt.Fprintf(errOut, "no application of %s uses %s%s\n", scope, o.query, hint)
		return nil
	}
	return o.print(env.Terminal(out), uses)
}

// String names what is looked for.
func (q query) String() string {
	var parts []string
	for _, p := range []struct{ what, value string }{
		{"an image with ", q.image}, {"Secret ", q.secret}, {"ConfigMap ", q.configMap}, {"Node ", q.node}, {"labels ", q.labels},
	} {
		if p.value != "" {
			parts = append(parts, p.what+p.value)
		}
	}
	return strings.Join(parts, " and ")
}

// kindsToList are those that have to be read.
func (q query) kindsToList() []schema.GroupVersionKind {
	if q.node != "" {
		return []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")}
	}
	if q.secret != "" && q.image == "" && q.configMap == "" {
		// A certificate is used by an Ingress, which has no pods.
		return append(slices.Clip(application.WorkloadKinds), networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	}
	return application.WorkloadKinds
}

// find returns what meets the query in a namespace, or in all.
func (q query) find(ctx context.Context, c client.Reader, namespace string) ([]Usage, error) {
	inNamespace := client.InNamespace(namespace)
	opts := []client.ListOption{inNamespace, q.selector()}
	if q.node != "" {
		opts = append(opts, client.MatchingFields{"spec.nodeName": q.node})
	}
	kinds := q.kindsToList()
	usagesByKind := make([][]Usage, len(kinds))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, kind := range kinds {
		group.Go(func() (err error) {
			usagesByKind[i], err = q.list(groupCtx, c, kind, opts)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	uses := slices.Concat(usagesByKind...)
	if q.node != "" && len(uses) > 0 {
		if err := resolvePodComponents(ctx, c, uses, inNamespace); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(uses, func(a, b Usage) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Application.Name, b.Application.Name),
			strings.Compare(a.Application.Kind, b.Application.Kind), strings.Compare(a.Application.Component, b.Application.Component),
			strings.Compare(a.Object.Name, b.Object.Name))
	})
	return uses, nil
}

// selector is that of our objects and of the flag, which was checked.
func (q query) selector() client.ListOption {
	s := labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if userSelector, err := labels.Parse(q.labels); err == nil {
		requirements, _ := userSelector.Requirements()
		s = s.Add(requirements...)
	}
	return client.MatchingLabelsSelector{Selector: s}
}

func (q query) list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, opts []client.ListOption) ([]Usage, error) {
	objects, err := application.ListAll(ctx, c, func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, cli.WithHint(err))
	}
	var uses []Usage
	for _, object := range objects {
		o, ok := object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("listed a %T", object)
		}
		if matches, ok := q.match(o.Object); ok {
			uses = append(uses, Usage{Namespace: o.GetNamespace(), Application: locate(o), Object: appsapi.ObjectReference{Kind: kind.Kind, Name: o.GetName()}, Matches: matches})
		}
	}
	return uses, nil
}

// locate is where a child belongs. A pod knows only the name of its workload, which stands
// in for the component until resolvePodComponents.
func locate(o *unstructured.Unstructured) application.ComponentRef {
	p := application.ComponentRefOf(o)
	if o.GetKind() == "Pod" {
		p.Component = application.WorkloadKeyOf(o).ID
	}
	return p
}

// resolvePodComponents says of which component pods are. A workload that is gone by now cannot.
func resolvePodComponents(ctx context.Context, c client.Reader, uses []Usage, inNamespace client.InNamespace) error {
	workloads, err := application.ComponentsByWorkload(ctx, c, inNamespace)
	if err != nil {
		return cli.WithHint(err)
	}
	for i := range uses {
		u := &uses[i]
		if place, ok := workloads[application.WorkloadKey{Namespace: u.Namespace, ID: u.Application.Component}]; ok {
			u.Application = place
		} else {
			u.Application.Component = ""
		}
	}
	return nil
}
