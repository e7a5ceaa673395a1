package rollback

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/revisions"
)

// decision is what going back to a revision means.
type decision struct {
	to revisions.Revision
	// spec is what to write.
	spec revisions.Spec
	// changes against the spec of now.
	changes []revisions.Change
	// stays are the differences to the revision: what it had, and what is kept instead.
	stays []revisions.Change
	// notes say what becomes of data.
	notes []string
}

// back is one application that goes back.
type back struct {
	app cli.Application
	// now is its whole spec.
	now revisions.Spec
	all []revisions.Revision
}

// to decides what going back to a revision means.
func (b back) to(r revisions.Revision) (*decision, error) {
	kind := cli.KindOf(b.app)
	d := &decision{to: r, spec: runtime.DeepCopyJSON(b.now)}
	for field, value := range runtime.DeepCopyJSON(r.Spec) {
		d.spec[field] = value // what is not remembered stays
	}
	for _, spec := range []revisions.Spec{b.now, d.spec} {
		if err := b.understood(spec); err != nil {
			return nil, err
		}
	}
	asRemembered := runtime.DeepCopyJSON(d.spec)
	now := b.renamed(d)
	if err := sameTypes(now, d.spec, r.Number); err != nil {
		return nil, err
	}
	keep(kind, d.spec, now, b.refused())
	b.addAgain(d, now)
	if err := b.remove(d, now); err != nil {
		return nil, err
	}
	var err error
	if d.changes, err = different(kind, b.now, d.spec); err != nil {
		return nil, err
	}
	d.stays, err = different(kind, asRemembered, d.spec)
	return d, err
}

// different compares specs as the operator writes them down.
func different(kind string, before, after revisions.Spec) ([]revisions.Change, error) {
	a, err := revisions.Canonical(kind, before)
	if err != nil {
		return nil, err
	}
	b, err := revisions.Canonical(kind, after)
	if err != nil {
		return nil, err
	}
	return revisions.Changes(a, b), nil
}

// understood refuses what this version of the plugin does not know wherever there is data: the
// rules would not be about it.
func (b back) understood(spec revisions.Spec) error {
	if _, ok := b.app.(*appsapi.CloudManager); ok {
		return b.knows("db", spec["db"], &appsapi.CloudManagerDatabase{})
	}
	for _, c := range entries(spec, "components") {
		for field := range c.(map[string]any) {
			if !slices.Contains(known, field) {
				return b.unknown(name(c), field)
			}
		}
		if stateful := c.(map[string]any)["stateful"]; stateful != nil {
			if err := b.knows(name(c), stateful, &appsapi.StatefulComponent{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// knows reads a component with data as strictly as the API server does.
func (b back) knows(component string, data, into any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return b.unknown(component, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	return nil
}

func (b back) unknown(component, what string) error {
	return fmt.Errorf("component %q of %s has something that this version of the plugin does not know (%s), so it cannot tell what to keep; use the version of the operator, which kubectl holdfast version prints", component, cli.Title(b.app), what)
}

// renamed lets the components of the revision that have another name now be these: without a
// word about it they would be new ones, which refuse to start beside the data of the others.
// It returns the spec of now under the names of the revision.
func (b back) renamed(d *decision) revisions.Spec {
	now := runtime.DeepCopyJSON(b.now)
	current := entries(now, "components")
	for _, c := range entries(d.spec, "components") {
		was := name(c)
		if find(current, "name", was) != nil {
			continue
		}
		is := b.successor(was, d.to.Number)
		if is == "" || find(entries(d.spec, "components"), "name", is) != nil {
			continue
		}
		c.(map[string]any)["renamedFrom"] = is
		find(current, "name", is)["name"] = was
		d.notes = append(d.notes, fmt.Sprintf("%q is called %q again; renamedFrom says so, and what it has stays its own.", is, was))
	}
	return now
}

// successor is the name that a component of a revision has now, or nothing if it is gone.
func (b back) successor(was string, number int64) string {
	specs := []revisions.Spec{}
	for _, r := range b.all {
		if r.Number > number {
			specs = append(specs, r.Spec)
		}
	}
	for _, spec := range append(specs, b.now) {
		if c := find(entries(spec, "components"), "renamedFrom", was); c != nil {
			was = name(c)
		}
	}
	if find(entries(b.now, "components"), "name", was) == nil {
		return ""
	}
	return was
}

// sameTypes finds components that are something else now, which the API refuses.
func sameTypes(now, target revisions.Spec, number int64) error {
	for _, c := range entries(target, "components") {
		is := find(entries(now, "components"), "name", name(c))
		if is == nil || typeOf(is) == typeOf(c.(map[string]any)) {
			continue
		}
		return fmt.Errorf("component %q is of type %s now and was of type %s in revision %d, and one cannot become the other; remove it from the spec first, which keeps its data with deletionPolicy Retain, and go back then",
			name(c), typeOf(is), typeOf(c.(map[string]any)), number)
	}
	return nil
}

func typeOf(component map[string]any) string {
	for _, t := range types {
		if component[t] != nil {
			return t
		}
	}
	return ""
}

// refused are the components whose storage the operator has refused.
func (b back) refused() []string {
	status, ok := b.app.(interface{ StackStatus() *appsapi.StackStatus })
	if !ok || b.app.ApplicationStatus().ObservedGeneration != b.app.GetGeneration() {
		return nil
	}
	var out []string
	for _, c := range status.StackStatus().Components {
		if c.Reason == appsapi.ReasonStorageRefused {
			out = append(out, c.Name)
		}
	}
	return out
}

// addAgain prepares the components that were removed since: nobody has suspended them, and
// their volumes may have grown before they went.
func (b back) addAgain(d *decision, now revisions.Spec) {
	for _, entry := range entries(d.spec, "components") {
		c := entry.(map[string]any)
		if is := find(entries(now, "components"), "name", c["name"]); is != nil {
			if c["stateful"] != nil { // its data is found by it
				carry(c, is, []string{"resourceName"})
			}
			continue
		}
		delete(c, "suspend")
		stateful, _ := c["stateful"].(map[string]any)
		if stateful == nil {
			continue
		}
		for _, volume := range entries(stateful, "storage") {
			b.grow(volume.(map[string]any), name(c), d.to.Number)
		}
		d.notes = append(d.notes, b.found(name(c)))
	}
}

// grow makes a volume of a removed component as large as it was at last. Volumes never become
// smaller, so the largest size that was healthy is what they have.
func (b back) grow(volume map[string]any, component string, number int64) {
	for _, r := range b.all {
		if r.Number <= number || !r.Healthy {
			continue
		}
		c := find(entries(r.Spec, "components"), "name", component)
		stateful, _ := c["stateful"].(map[string]any)
		if later := find(entries(stateful, "storage"), "name", volume["name"]); later != nil && less(volume["size"], later["size"]) {
			volume["size"] = later["size"]
		}
	}
}

func less(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) < 0
}

// found says which data a component that is added again will have.
func (b back) found(component string) string {
	var claims []string
	if status, ok := b.app.(interface{ StackStatus() *appsapi.StackStatus }); ok {
		for _, r := range status.StackStatus().Retained {
			if r.Component == component {
				claims = append(claims, r.Kind+" "+r.Name)
			}
		}
	}
	if len(claims) == 0 {
		return fmt.Sprintf("%q is added again. status.retained names no data of it, so it starts with new, empty volumes.", component)
	}
	return fmt.Sprintf("%q is added again and finds the data that was kept of it: %s.", component, strings.Join(claims, ", "))
}

// remove says what becomes of components that the revision does not have, and refuses to lose
// their data.
func (b back) remove(d *decision, now revisions.Spec) error {
	for _, entry := range entries(now, "components") {
		c := entry.(map[string]any)
		if c["stateful"] == nil || find(entries(d.spec, "components"), "name", c["name"]) != nil {
			continue
		}
		if d.spec["deletionPolicy"] == string(appsapi.DeletionDelete) {
			return fmt.Errorf(`revision %d has no component %q, and deletionPolicy Delete would delete its data with it; keep the data first: kubectl patch %s %s -n %s --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`,
				d.to.Number, name(c), strings.ToLower(cli.KindOf(b.app)), b.app.GetName(), b.app.GetNamespace())
		}
		d.notes = append(d.notes, fmt.Sprintf("%q is not in revision %d: its pods end. Its volumes and credentials are kept, and found again when it is added again.", name(c), d.to.Number))
	}
	return nil
}
