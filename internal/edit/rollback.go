package edit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/revisions"
)

// Rollback is what going back to a revision means.
type Rollback struct {
	To revisions.Revision
	// Spec is what to write.
	Spec revisions.Spec
	// Changes against the spec of now.
	Changes []revisions.Change
	// Stays are the differences to the revision: what it had, and what is kept instead.
	Stays []revisions.Change
	// Notes say what becomes of data.
	Notes []string
}

// Kept is what of Stays is news: not what revisions do not remember, such as a password, and not
// names, which are in the notes.
func (r *Rollback) Kept() []revisions.Change {
	return slices.DeleteFunc(slices.Clone(r.Stays), func(c revisions.Change) bool {
		return c.Path == "renamedFrom" || c.Path == "rootPass" || c.Path == ""
	})
}

// Past is an application that may go back.
type Past struct {
	App application.Application
	// Now is its whole spec.
	Now revisions.Spec
	All []revisions.Revision
}

// ReadPast reads the revisions of an application, and its spec as it is stored.
func ReadPast(ctx context.Context, c client.Client, app application.Application) (Past, *unstructured.Unstructured, error) {
	if app.GetDeletionTimestamp() != nil {
		return Past{}, nil, application.Refuse("%s is being deleted, and cannot go back; create it again from its manifest", application.Title(app))
	}
	all, err := revisions.List(ctx, c, app)
	if err != nil {
		return Past{}, nil, err
	}
	raw, err := Raw(ctx, c, app)
	if err != nil {
		return Past{}, nil, err
	}
	if raw.GetResourceVersion() != app.GetResourceVersion() && raw.GetGeneration() != app.GetGeneration() {
		return Past{}, nil, meanwhile("%s is being changed by somebody else right now; run the same again", application.Title(app))
	}
	spec, _, err := unstructured.NestedMap(raw.Object, "spec")
	if err != nil {
		return Past{}, nil, err
	}
	return Past{App: app, Now: spec, All: all}, raw, nil
}

// Choose decides about the revision that is asked for; 0 is the newest healthy one with which
// something would be different.
func (p Past) Choose(number int64) (*Rollback, error) {
	if number != 0 {
		r, err := revisions.Find(p.App, p.All, number)
		if err != nil {
			return nil, err
		}
		return p.To(r)
	}
	for _, r := range slices.Backward(p.All) {
		if !r.Healthy || r.Current {
			continue
		}
		d, err := p.To(r)
		if err != nil || len(d.Changes) > 0 {
			return d, err
		}
	}
	const none = "%s has no earlier revision with which everything was ready and anything would be different; "
	const list = "kubectl holdfast history %s -n %s lists them"
	args := []any{application.Title(p.App), p.App.GetName(), p.App.GetNamespace()}
	return nil, application.Refuse(none+"choose one with --to-revision: "+list, args...).
		OrElsewhere(none+"choose one by its number: "+list, args...)
}

// To decides what going back to a revision means.
func (p Past) To(r revisions.Revision) (*Rollback, error) {
	kind := application.KindOf(p.App)
	d := &Rollback{To: r, Spec: runtime.DeepCopyJSON(p.Now)}
	for field, value := range runtime.DeepCopyJSON(r.Spec) {
		d.Spec[field] = value // what is not remembered stays
	}
	for _, spec := range []revisions.Spec{p.Now, d.Spec} {
		if err := p.understood(spec); err != nil {
			return nil, err
		}
	}
	asRemembered := runtime.DeepCopyJSON(d.Spec)
	now := p.renamed(d)
	if err := sameTypes(now, d.Spec, r.Number); err != nil {
		return nil, err
	}
	keep(kind, d.Spec, now, p.refused())
	p.addAgain(d, now)
	if err := p.remove(d, now); err != nil {
		return nil, err
	}
	var err error
	if d.Changes, err = different(kind, p.Now, d.Spec); err != nil {
		return nil, err
	}
	d.Stays, err = different(kind, asRemembered, d.Spec)
	return d, err
}

// different compares specs as the operator writes them down.
func different(kind string, before, after revisions.Spec) ([]revisions.Change, error) {
	was, err := revisions.Canonical(kind, before)
	if err != nil {
		return nil, err
	}
	is, err := revisions.Canonical(kind, after)
	if err != nil {
		return nil, err
	}
	return revisions.Changes(was, is), nil
}

// understood refuses what this version of the plugin does not know wherever there is data: the
// rules would not be about it.
func (p Past) understood(spec revisions.Spec) error {
	if _, ok := p.App.(*appsapi.CloudManager); ok {
		return p.knows("db", spec["db"], &appsapi.CloudManagerDatabase{})
	}
	for _, c := range entries(spec, "components") {
		for field := range c.(map[string]any) {
			if !slices.Contains(known, field) {
				return p.unknown(name(c), field)
			}
		}
		for field, into := range map[string]any{"stateful": &appsapi.StatefulComponent{}, "database": &appsapi.DatabaseComponent{}} {
			if data := c.(map[string]any)[field]; data != nil {
				if err := p.knows(name(c), data, into); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// knows reads a component with data as strictly as the API server does.
func (p Past) knows(component string, data, into any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return p.unknown(component, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	return nil
}

func (p Past) unknown(component, what string) error {
	const unknown = "component %q of %s has something that this version of the "
	const next = " does not know (%s), so it cannot tell what to keep; use the version of the operator, which kubectl holdfast version prints"
	args := []any{component, application.Title(p.App), what}
	return application.Refuse(unknown+"plugin"+next, args...).OrElsewhere(unknown+"center"+next, args...)
}

// renamed lets the components of the revision that have another name now be these: without a
// word about it they would be new ones, which refuse to start beside the data of the others.
// It returns the spec of now under the names of the revision.
func (p Past) renamed(d *Rollback) revisions.Spec {
	now := runtime.DeepCopyJSON(p.Now)
	current := entries(now, "components")
	for _, c := range entries(d.Spec, "components") {
		was := name(c)
		if find(current, "name", was) != nil {
			continue
		}
		is := p.successor(was, d.To.Number)
		if is == "" || find(entries(d.Spec, "components"), "name", is) != nil {
			continue
		}
		c.(map[string]any)["renamedFrom"] = is
		find(current, "name", is)["name"] = was
		d.Notes = append(d.Notes, fmt.Sprintf("%q is called %q again; renamedFrom says so, and what it has stays its own.", is, was))
	}
	return now
}

// successor is the name that a component of a revision has now, or nothing if it is gone.
func (p Past) successor(was string, number int64) string {
	specs := []revisions.Spec{}
	for _, r := range p.All {
		if r.Number > number {
			specs = append(specs, r.Spec)
		}
	}
	for _, spec := range append(specs, p.Now) {
		if c := find(entries(spec, "components"), "renamedFrom", was); c != nil {
			was = name(c)
		}
	}
	if find(entries(p.Now, "components"), "name", was) == nil {
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
		return application.Refuse("component %q is of type %s now and was of type %s in revision %d, and one cannot become the other; remove it from the spec first, which keeps its data with deletionPolicy Retain, and go back then",
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
func (p Past) refused() []string {
	status, ok := p.App.(interface{ StackStatus() *appsapi.StackStatus })
	if !ok || p.App.ApplicationStatus().ObservedGeneration != p.App.GetGeneration() {
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
func (p Past) addAgain(d *Rollback, now revisions.Spec) {
	for _, entry := range entries(d.Spec, "components") {
		c := entry.(map[string]any)
		if is := find(entries(now, "components"), "name", c["name"]); is != nil {
			if hasData(c) { // its data is found by it
				carry(c, is, []string{"resourceName"})
			}
			continue
		}
		delete(c, "suspend")
		if !hasData(c) {
			continue
		}
		for _, volume := range volumes(c) {
			p.grow(volume.(map[string]any), name(c), d.To.Number)
		}
		d.Notes = append(d.Notes, p.found(name(c)))
	}
}

// grow makes a volume of a removed component as large as it was at last. Volumes never become
// smaller, so the largest size that was healthy is what they have.
func (p Past) grow(volume map[string]any, component string, number int64) {
	for _, r := range p.All {
		if r.Number <= number || !r.Healthy {
			continue
		}
		c := find(entries(r.Spec, "components"), "name", component)
		if later := find(volumes(c), "name", volume["name"]); later != nil && less(volume["size"], later["size"]) {
			volume["size"] = later["size"]
		}
	}
}

func hasData(component map[string]any) bool {
	return component["stateful"] != nil || component["database"] != nil
}

// volumes are those of a component; that of a database has no name.
func volumes(component map[string]any) []any {
	if database, ok := component["database"].(map[string]any); ok {
		return []any{database["storage"]}
	}
	stateful, _ := component["stateful"].(map[string]any)
	return entries(stateful, "storage")
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
func (p Past) found(component string) string {
	var claims []string
	if status, ok := p.App.(interface{ StackStatus() *appsapi.StackStatus }); ok {
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
func (p Past) remove(d *Rollback, now revisions.Spec) error {
	for _, entry := range entries(now, "components") {
		c := entry.(map[string]any)
		if !hasData(c) || find(entries(d.Spec, "components"), "name", c["name"]) != nil {
			continue
		}
		if d.Spec["deletionPolicy"] == string(appsapi.DeletionDelete) {
			return application.Refuse(`revision %d has no component %q, and deletionPolicy Delete would delete its data with it; keep the data first: kubectl patch %s %s -n %s --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`,
				d.To.Number, name(c), strings.ToLower(application.KindOf(p.App)), p.App.GetName(), p.App.GetNamespace())
		}
		d.Notes = append(d.Notes, fmt.Sprintf("%q is not in revision %d: its pods end. Its volumes and credentials are kept, and found again when it is added again.", name(c), d.To.Number))
	}
	return nil
}
