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
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/kubeclient"
)

// Usage is an object of an application that matches the query.
type Usage struct {
	Namespace   string                  `json:"namespace"`
	Application kubeclient.ComponentRef `json:"application"`
	Object      appsapi.ObjectReference `json:"object"`
	Matches     []Match                 `json:"matches"`
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
	done := cli.Progress(errOut, "Searching the applications in "+scope)
	uses, err := o.find(ctx, c, namespace)
	done()
	if err != nil {
		return err
	}
	if len(uses) == 0 && !o.output.IsMachineReadable() {
		hint := "; use -A to search all namespaces"
		if o.allNamespaces {
			hint = ""
		}
		fmt.Fprintf(errOut, "no application in %s uses %s%s\n", scope, o.query, hint)
		return nil
	}
	return o.print(env.Terminal(out), uses)
}

// String describes the query.
func (q query) String() string {
	var parts []string
	for _, p := range []struct{ what, value string }{
		{"an image matching ", q.image}, {"Secret ", q.secret}, {"ConfigMap ", q.configMap}, {"Node ", q.node}, {"labels ", q.labels},
	} {
		if p.value != "" {
			parts = append(parts, p.what+p.value)
		}
	}
	return strings.Join(parts, " and ")
}

// kindsToList returns the kinds that can match the query.
func (q query) kindsToList() []schema.GroupVersionKind {
	if q.node != "" {
		return []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Pod")}
	}
	if q.secret != "" && q.image == "" && q.configMap == "" {
		// Ingresses refer to TLS Secrets.
		return append(slices.Clip(kubeclient.WorkloadKinds), networkingv1.SchemeGroupVersion.WithKind("Ingress"))
	}
	return kubeclient.WorkloadKinds
}

// find returns the matches in a namespace. An empty namespace means all namespaces.
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

// selector combines the managed-by label with the selector of the flag, which is already validated.
func (q query) selector() client.ListOption {
	s := labels.SelectorFromSet(labels.Set{appsapi.LabelManagedBy: appsapi.ManagedBy})
	if userSelector, err := labels.Parse(q.labels); err == nil {
		requirements, _ := userSelector.Requirements()
		s = s.Add(requirements...)
	}
	return client.MatchingLabelsSelector{Selector: s}
}

func (q query) list(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, opts []client.ListOption) ([]Usage, error) {
	objects, err := kubeclient.ListAll(ctx, c, func() client.ObjectList {
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
			return nil, fmt.Errorf("unexpected list item of type %T", object)
		}
		if matches, ok := q.match(o.Object); ok {
			uses = append(uses, Usage{Namespace: o.GetNamespace(), Application: locate(o), Object: appsapi.ObjectReference{Kind: kind.Kind, Name: o.GetName()}, Matches: matches})
		}
	}
	return uses, nil
}

// locate returns the component of a child. Pods have only the name of their workload, which
// resolvePodComponents replaces with the component.
func locate(o *unstructured.Unstructured) kubeclient.ComponentRef {
	p := kubeclient.ComponentRefOf(o)
	if o.GetKind() == "Pod" {
		p.Component = kubeclient.WorkloadKeyOf(o).ID
	}
	return p
}

// resolvePodComponents finds the components of pods. The component stays empty if the workload was
// deleted.
func resolvePodComponents(ctx context.Context, c client.Reader, uses []Usage, inNamespace client.InNamespace) error {
	workloads, err := kubeclient.ComponentsByWorkload(ctx, c, inNamespace)
	if err != nil {
		return cli.WithHint(err)
	}
	for i := range uses {
		u := &uses[i]
		if place, ok := workloads[kubeclient.WorkloadKey{Namespace: u.Namespace, ID: u.Application.Component}]; ok {
			u.Application = place
		} else {
			u.Application.Component = ""
		}
	}
	return nil
}
