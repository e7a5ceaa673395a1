package plan

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// Order is in which order an application would be created and deleted.
type Order struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Components in the order in which they are created.
	Components []Component `json:"components"`
	// EmptyCluster is what the operator would do first in a cluster where nothing of the
	// application exists.
	EmptyCluster EmptyCluster `json:"emptyCluster"`
	// Deletion is the order in which the components go, those of one entry together. It
	// is empty when they all go at once.
	Deletion [][]string `json:"deletion,omitempty"`
}

// Component is one component of the application.
type Component struct {
	// Wave is which of the waves creates it: those of one wave wait only for those of
	// earlier ones.
	Wave      int                       `json:"wave"`
	Name      string                    `json:"name"`
	Type      appsapi.ComponentType     `json:"type"`
	Children  []appsapi.ObjectReference `json:"children"`
	WaitsFor  []string                  `json:"waitsFor,omitempty"`
	Suspended bool                      `json:"suspended,omitempty"`
}

// EmptyCluster says which components are applied and which wait.
type EmptyCluster struct {
	Apply []string `json:"apply,omitempty"`
	Wait  []Wait   `json:"wait,omitempty"`
	// Suspended components are left alone.
	Suspended []string `json:"suspended,omitempty"`
}

// Wait is a component that waits for others.
type Wait struct {
	Component string   `json:"component"`
	For       []string `json:"for"`
}

// offline prints the order of every application. One that cannot be planned does not hide
// the others.
func offline(o options, applications []declared, out io.Writer) error {
	var orders []Order
	var errs []error
	for _, a := range applications {
		if err := a.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.where, err))
			continue
		}
		order, err := orderOf(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %s: %w", a.where, a.owner.Kind, a.owner.Name, err))
			continue
		}
		orders = append(orders, order)
	}
	if len(orders) > 0 {
		errs = append(errs, printOrders(o.output.Format, orders, out))
	}
	return errors.Join(errs...)
}

// orderOf plans an application that does not exist yet.
func orderOf(a declared) (Order, error) {
	components := desired.For(a.owner, a.components, desired.Known{})
	steps, err := rollout.For(rollout.Input{Owner: a.owner, Components: components})
	if err != nil {
		return Order{}, err
	}
	p := Order{Kind: a.owner.Kind, Namespace: a.owner.Namespace, Name: a.owner.Name}
	for i, wave := range rollout.Order(gating(components)) {
		for _, c := range wave {
			p.Components = append(p.Components, component(i+1, c))
			if c.Suspended {
				p.EmptyCluster.Suspended = append(p.EmptyCluster.Suspended, c.Name)
			}
		}
	}
	for _, s := range steps.Steps {
		if s.Waits() {
			p.EmptyCluster.Wait = append(p.EmptyCluster.Wait, Wait{s.Component, s.WaitsFor})
			continue
		}
		p.EmptyCluster.Apply = append(p.EmptyCluster.Apply, s.Component)
	}
	if rollout.Ordered(components, nil) {
		p.Deletion = deletion(a.owner, components)
	}
	return p, nil
}

func component(wave int, c desired.Component) Component {
	out := Component{Wave: wave, Name: c.Name, Type: c.Type, WaitsFor: c.DependsOn, Suspended: c.Suspended}
	for _, child := range c.Children {
		out.Children = append(out.Children, appsapi.ObjectReference{Kind: child.Kind.Kind, Name: child.Name})
	}
	return out
}

// gating are the components without their dependencies on those that nobody waits for.
func gating(components []desired.Component) []desired.Component {
	free := map[string]bool{}
	for _, c := range components {
		free[c.Name] = c.GatesNobody
	}
	out := make([]desired.Component, len(components))
	for i, c := range components {
		out[i] = c
		out[i].DependsOn = nil
		for _, dep := range c.DependsOn {
			if !free[dep] {
				out[i].DependsOn = append(out[i].DependsOn, dep)
			}
		}
	}
	return out
}

// deletion plays the deletion of what the components would have become.
func deletion(owner desired.Owner, components []desired.Component) [][]string {
	seen := rollout.Seen{}
	for _, c := range components {
		seen[c.Workload] = workload(owner, c)
	}
	var order [][]string
	for {
		down := rollout.Down(owner, seen)
		if down.Done {
			return order
		}
		var wave []string
		for _, r := range down.Delete {
			wave = append(wave, r.Component)
			delete(seen, r.Child)
		}
		slices.Sort(wave)
		order = append(order, wave)
	}
}

// workload is what of a workload the order of deletion is made of.
func workload(owner desired.Owner, c desired.Component) rollout.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: c.Workload.Name, Namespace: owner.Namespace,
		Labels:          map[string]string{appsapi.LabelComponent: c.Name},
		Annotations:     map[string]string{appsapi.AnnotationDependsOn: strings.Join(c.DependsOn, ",")},
		OwnerReferences: []metav1.OwnerReference{{UID: owner.UID, Controller: new(true)}},
	}}
}
