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

// Order is the order in which an application would be created and deleted.
type Order struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Components are in creation order.
	Components []Component `json:"components"`
	// EmptyCluster is the first step of the operator in a cluster without objects of the application.
	EmptyCluster EmptyCluster `json:"emptyCluster"`
	// Deletion is the order in which components are deleted. Components of one entry are deleted
	// together. It is empty if all components are deleted at once.
	Deletion [][]string `json:"deletion,omitempty"`
}

// Component is one component of the application.
type Component struct {
	// Wave is the number of the wave that creates the component. Components wait only for earlier waves.
	Wave      int                       `json:"wave"`
	Name      string                    `json:"name"`
	Type      appsapi.ComponentType     `json:"type"`
	Children  []appsapi.ObjectReference `json:"children"`
	WaitsFor  []string                  `json:"waitsFor,omitempty"`
	Suspended bool                      `json:"suspended,omitempty"`
}

// EmptyCluster lists the components that are applied and those that wait.
type EmptyCluster struct {
	Apply []string `json:"apply,omitempty"`
	Wait  []Wait   `json:"wait,omitempty"`
	// Suspended components are not applied.
	Suspended []string `json:"suspended,omitempty"`
}

// Wait is a component that waits for others.
type Wait struct {
	Component string   `json:"component"`
	For       []string `json:"for"`
}

// planOffline prints the order of all applications. An error of one application does not stop the others.
func planOffline(o options, applications []declaredApp, out io.Writer) error {
	var orders []Order
	var errs []error
	for _, a := range applications {
		if err := a.validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.location, err))
			continue
		}
		order, err := newOrder(a)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s %s: %w", a.location, a.owner.Kind, a.owner.Name, err))
			continue
		}
		orders = append(orders, order)
	}
	if len(orders) > 0 {
		errs = append(errs, printOrders(o.output.Format, orders, out))
	}
	return errors.Join(errs...)
}

// newOrder plans an application that does not exist yet.
func newOrder(a declaredApp) (Order, error) {
	components := desired.Build(a.owner, a.components, desired.ClusterState{})
	steps, err := rollout.NewPlan(rollout.Input{Owner: a.owner, Components: components})
	if err != nil {
		return Order{}, err
	}
	p := Order{Kind: a.owner.Kind, Namespace: a.owner.Namespace, Name: a.owner.Name}
	for i, wave := range rollout.Waves(withoutNonGatingDependencies(components)) {
		for _, c := range wave {
			p.Components = append(p.Components, newComponent(i+1, c))
			if c.Suspended {
				p.EmptyCluster.Suspended = append(p.EmptyCluster.Suspended, c.Name)
			}
		}
	}
	for _, s := range steps.Steps {
		if s.IsWaiting() {
			p.EmptyCluster.Wait = append(p.EmptyCluster.Wait, Wait{s.Component, s.WaitsFor})
			continue
		}
		p.EmptyCluster.Apply = append(p.EmptyCluster.Apply, s.Component)
	}
	if rollout.RequiresOrder(appsapi.DefaultKeys, components, nil) {
		p.Deletion = deletionOrder(a.owner, components)
	}
	return p, nil
}

func newComponent(wave int, c desired.Component) Component {
	out := Component{Wave: wave, Name: c.Name, Type: c.Type, WaitsFor: c.DependsOn, Suspended: c.Suspended}
	for _, child := range c.Children {
		out.Children = append(out.Children, appsapi.ObjectReference{Kind: child.Kind.Kind, Name: child.Name})
	}
	return out
}

// withoutNonGatingDependencies removes dependencies on components that do not block their dependents.
func withoutNonGatingDependencies(components []desired.Component) []desired.Component {
	nonGating := map[string]bool{}
	for _, c := range components {
		nonGating[c.Name] = c.NonBlocking
	}
	out := make([]desired.Component, len(components))
	for i, c := range components {
		out[i] = c
		out[i].DependsOn = nil
		for _, dep := range c.DependsOn {
			if !nonGating[dep] {
				out[i].DependsOn = append(out[i].DependsOn, dep)
			}
		}
	}
	return out
}

// deletionOrder simulates the deletion of the components.
func deletionOrder(owner desired.Owner, components []desired.Component) [][]string {
	observed := rollout.Observed{}
	for _, c := range components {
		observed[c.Workload] = workloadMetadata(owner, c)
	}
	var order [][]string
	for {
		down := rollout.PlanTeardown(owner, observed)
		if down.Done {
			return order
		}
		var wave []string
		for _, r := range down.Delete {
			wave = append(wave, r.Component)
			delete(observed, r.Child)
		}
		slices.Sort(wave)
		order = append(order, wave)
	}
}

// workloadMetadata returns the metadata of a workload that determines the deletion order.
func workloadMetadata(owner desired.Owner, c desired.Component) rollout.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: c.Workload.Name, Namespace: owner.Namespace,
		Labels:          map[string]string{appsapi.LabelComponent: c.Name},
		Annotations:     map[string]string{appsapi.DefaultKeys.DependsOn: strings.Join(c.DependsOn, ",")},
		OwnerReferences: []metav1.OwnerReference{{UID: owner.UID, Controller: new(true)}},
	}}
}
