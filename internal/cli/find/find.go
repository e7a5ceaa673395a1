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

// Use is an object of an application that uses what was looked for.
type Use struct {
	Namespace   string                  `json:"namespace"`
	Application application.Place       `json:"application"`
	Object      appsapi.ObjectReference `json:"object"`
	Found       []Found                 `json:"found"`
}

func run(ctx context.Context, env *cli.Env, o options, out, errOut io.Writer) error {
	c, err := env.Client()
	if err != nil {
		return err
	}
	namespace, where := "", "all namespaces"
	if !o.allNamespaces {
		if namespace, err = env.Namespace(); err != nil {
			return err
		}
		where = "namespace " + namespace
	}
	done := cli.Progress(errOut, "Looking through the applications of "+where)
	uses, err := o.run(ctx, c, namespace)
	done()
	if err != nil {
		return err
	}
	if len(uses) == 0 && !o.output.Machine() {
		hint := "; -A looks in all namespaces"
		if o.allNamespaces {
			hint = ""
		}
		fmt.Fprintf(errOut, "no application of %s uses %s%s\n", where, o.query, hint)
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

// kinds are those that have to be read.
func (q query) kinds() []schema.GroupVersionKind {
	if q.node != "" {
		return []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")}
	}
	if q.secret != "" && q.image == "" && q.configMap == "" {
		// A certificate is used by an Ingress, which has no pods.
		return append(slices.Clip(application.WorkloadKinds), networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	}
	return application.WorkloadKinds
}

// run returns what meets the query in a namespace, or in all.
func (q query) run(ctx context.Context, c client.Reader, namespace string) ([]Use, error) {
	in := client.InNamespace(namespace)
	opts := []client.ListOption{in, q.selector()}
	if q.node != "" {
		opts = append(opts, client.MatchingFields{"spec.nodeName": q.node})
	}
	kinds := q.kinds()
	found := make([][]Use, len(kinds))
	group, groupCtx := errgroup.WithContext(ctx)
	for i, kind := range kinds {
		group.Go(func() (err error) {
			found[i], err = q.list(groupCtx, c, kind, opts)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	uses := slices.Concat(found...)
	if q.node != "" && len(uses) > 0 {
		if err := placePods(ctx, c, uses, in); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(uses, func(a, b Use) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Application.Name, b.Application.Name),
			strings.Compare(a.Application.Kind, b.Application.Kind), strings.Compare(a.Application.Component, b.Application.Component),
			strings.Compare(a.Object.Name, b.Object.Name))
	})
	return uses, nil
}

// selector is that of our objects and of the flag, which was checked.
func (q query) selector() client.ListOption {
	s := labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if more, err := labels.Parse(q.labels); err == nil {
		requirements, _ := more.Requirements()
		s = s.Add(requirements...)
	}
	return client.MatchingLabelsSelector{Selector: s}
}

func (q query) list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, opts []client.ListOption) ([]Use, error) {
	objects, err := application.ListAll(ctx, c, func() client.ObjectList {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}, opts...)
	if err != nil {
		return nil, fmt.Errorf("list objects of kind %s: %w", kind.Kind, cli.Explained(err))
	}
	var uses []Use
	for _, object := range objects {
		o, ok := object.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("listed a %T", object)
		}
		if found, ok := q.in(o.Object); ok {
			uses = append(uses, Use{Namespace: o.GetNamespace(), Application: placeOf(o), Object: appsapi.ObjectReference{Kind: kind.Kind, Name: o.GetName()}, Found: found})
		}
	}
	return uses, nil
}

// placeOf is where a child belongs. A pod knows only the name of its workload, which stands
// in for the component until placePods.
func placeOf(o *unstructured.Unstructured) application.Place {
	p := application.PlaceOf(o)
	if o.GetKind() == "Pod" {
		p.Component = application.WorkloadOf(o).ID
	}
	return p
}

// placePods says of which component pods are. A workload that is gone by now cannot.
func placePods(ctx context.Context, c client.Reader, uses []Use, in client.InNamespace) error {
	workloads, err := application.Workloads(ctx, c, in)
	if err != nil {
		return cli.Explained(err)
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
