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
	Target revisions.Revision
	// Spec is what to write.
	Spec revisions.Spec
	// Changes against the spec of now.
	Changes []revisions.SpecChange
	// Retained are the differences to the revision: what it had, and what is kept instead.
	Retained []revisions.SpecChange
	// Notes say what becomes of data.
	Notes []string
}

// NotableRetained is what of Stays is news: not what revisions do not remember, such as a password, and not
// names, which are in the notes.
func (r *Rollback) NotableRetained() []revisions.SpecChange {
	return slices.DeleteFunc(slices.Clone(r.Retained), func(c revisions.SpecChange) bool {
		return c.Path == "renamedFrom" || c.Path == "rootPass" || c.Path == ""
	})
}

// RollbackPlanner is an application that may go back.
type RollbackPlanner struct {
	App application.Application
	// CurrentSpec is its whole spec.
	CurrentSpec revisions.Spec
	Revisions   []revisions.Revision
}

// NewRollbackPlanner reads the revisions of an application, and its spec as it is stored.
func NewRollbackPlanner(ctx context.Context, c client.Client, app application.Application) (RollbackPlanner, *unstructured.Unstructured, error) {
	if app.GetDeletionTimestamp() != nil {
		return RollbackPlanner{}, nil, application.UserErrorf("%s is being deleted, and cannot go back; create it again from its manifest", application.Title(app))
	}
	all, err := revisions.List(ctx, c, app)
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	raw, err := ReadRaw(ctx, c, app)
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	if raw.GetResourceVersion() != app.GetResourceVersion() && raw.GetGeneration() != app.GetGeneration() {
		return RollbackPlanner{}, nil, changedMeanwhileError("%s is being changed by somebody else right now; run the same again", application.Title(app))
	}
	spec, _, err := unstructured.NestedMap(raw.Object, "spec")
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	return RollbackPlanner{App: app, CurrentSpec: spec, Revisions: all}, raw, nil
}

// Plan decides about the revision that is asked for; 0 is the newest healthy one with which
// something would be different.
func (p RollbackPlanner) Plan(number int64) (*Rollback, error) {
	if number != 0 {
		r, err := revisions.Find(p.App, p.Revisions, number)
		if err != nil {
			return nil, err
		}
		return p.PlanFor(r)
	}
	for _, r := range slices.Backward(p.Revisions) {
		if !r.Healthy || r.Current {
			continue
		}
		d, err := p.PlanFor(r)
		if err != nil || len(d.Changes) > 0 {
			return d, err
		}
	}
	const noRevision = "%s has no earlier revision with which everything was ready and anything would be different; "
	const listHint = "kubectl holdfast history %s -n %s lists them"
	args := []any{application.Title(p.App), p.App.GetName(), p.App.GetNamespace()}
	return nil, application.UserErrorf(noRevision+"choose one with --to-revision: "+listHint, args...).
		WithNonCLIMessage(noRevision+"choose one by its number: "+listHint, args...)
}

// PlanFor decides what going back to a revision means.
func (p RollbackPlanner) PlanFor(r revisions.Revision) (*Rollback, error) {
	kind := application.KindOf(p.App)
	d := &Rollback{Target: r, Spec: runtime.DeepCopyJSON(p.CurrentSpec)}
	for field, value := range runtime.DeepCopyJSON(r.Spec) {
		d.Spec[field] = value // what is not remembered stays
	}
	for _, spec := range []revisions.Spec{p.CurrentSpec, d.Spec} {
		if err := p.checkKnownFields(spec); err != nil {
			return nil, err
		}
	}
	recorded := runtime.DeepCopyJSON(d.Spec)
	renamedCurrent := p.applyRenames(d)
	if err := checkTypes(renamedCurrent, d.Spec, r.Number); err != nil {
		return nil, err
	}
	applyKeepRules(kind, d.Spec, renamedCurrent, p.componentsWithRejectedStorage())
	p.restoreRemoved(d, renamedCurrent)
	if err := p.checkRemoved(d, renamedCurrent); err != nil {
		return nil, err
	}
	var err error
	if d.Changes, err = diffSpecs(kind, p.CurrentSpec, d.Spec); err != nil {
		return nil, err
	}
	d.Retained, err = diffSpecs(kind, recorded, d.Spec)
	return d, err
}

// diffSpecs compares specs as the operator writes them down.
func diffSpecs(kind string, before, after revisions.Spec) ([]revisions.SpecChange, error) {
	beforeSpec, err := revisions.Canonical(kind, before)
	if err != nil {
		return nil, err
	}
	afterSpec, err := revisions.Canonical(kind, after)
	if err != nil {
		return nil, err
	}
	return revisions.Diff(beforeSpec, afterSpec), nil
}

// checkKnownFields refuses what this version of the plugin does not know wherever there is data: the
// rules would not be about it.
func (p RollbackPlanner) checkKnownFields(spec revisions.Spec) error {
	if _, ok := p.App.(*appsapi.CloudManager); ok {
		return p.checkStrict("db", spec["db"], &appsapi.CloudManagerDatabase{})
	}
	for _, c := range objectList(spec, "components") {
		for field := range c.(map[string]any) {
			if !slices.Contains(knownFields, field) {
				return p.unknownFieldError(componentName(c), field)
			}
		}
		for field, into := range map[string]any{"stateful": &appsapi.StatefulComponent{}, "database": &appsapi.DatabaseComponent{}} {
			if data := c.(map[string]any)[field]; data != nil {
				if err := p.checkStrict(componentName(c), data, into); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkStrict reads a component with data as strictly as the API server does.
func (p RollbackPlanner) checkStrict(component string, data, into any) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(content, into); err != nil {
		return p.unknownFieldError(component, strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: json: "))
	}
	return nil
}

func (p RollbackPlanner) unknownFieldError(component, what string) error {
	const unknown = "component %q of %s has something that this version of the "
	const next = " does not know (%s), so it cannot tell what to keep; use the version of the operator, which kubectl holdfast version prints"
	args := []any{component, application.Title(p.App), what}
	return application.UserErrorf(unknown+"plugin"+next, args...).WithNonCLIMessage(unknown+"center"+next, args...)
}

// applyRenames lets the components of the revision that have another name now be these: without a
// word about it they would be new ones, which refuse to start beside the data of the others.
// It returns the spec of now under the names of the revision.
func (p RollbackPlanner) applyRenames(d *Rollback) revisions.Spec {
	now := runtime.DeepCopyJSON(p.CurrentSpec)
	current := objectList(now, "components")
	for _, c := range objectList(d.Spec, "components") {
		oldName := componentName(c)
		if findByKey(current, "name", oldName) != nil {
			continue
		}
		newName := p.currentName(oldName, d.Target.Number)
		if newName == "" || findByKey(objectList(d.Spec, "components"), "name", newName) != nil {
			continue
		}
		c.(map[string]any)["renamedFrom"] = newName
		findByKey(current, "name", newName)["name"] = oldName
		d.Notes = append(d.Notes, fmt.Sprintf("%q is called %q again; renamedFrom says so, and what it has stays its own.", newName, oldName))
	}
	return now
}

// currentName is the name that a component of a revision has now, or nothing if it is gone.
func (p RollbackPlanner) currentName(was string, number int64) string {
	specs := []revisions.Spec{}
	for _, r := range p.Revisions {
		if r.Number > number {
			specs = append(specs, r.Spec)
		}
	}
	for _, spec := range append(specs, p.CurrentSpec) {
		if c := findByKey(objectList(spec, "components"), "renamedFrom", was); c != nil {
			was = componentName(c)
		}
	}
	if findByKey(objectList(p.CurrentSpec, "components"), "name", was) == nil {
		return ""
	}
	return was
}

// checkTypes finds components that are something else now, which the API refuses.
func checkTypes(now, target revisions.Spec, number int64) error {
	for _, c := range objectList(target, "components") {
		current := findByKey(objectList(now, "components"), "name", componentName(c))
		if current == nil || componentType(current) == componentType(c.(map[string]any)) {
			continue
		}
		return application.UserErrorf("component %q is of type %s now and was of type %s in revision %d, and one cannot become the other; remove it from the spec first, which keeps its data with deletionPolicy Retain, and go back then",
			componentName(c), componentType(current), componentType(c.(map[string]any)), number)
	}
	return nil
}

func componentType(component map[string]any) string {
	for _, t := range componentTypes {
		if component[t] != nil {
			return t
		}
	}
	return ""
}

// componentsWithRejectedStorage are the components whose storage the operator has refused.
func (p RollbackPlanner) componentsWithRejectedStorage() []string {
	status, ok := p.App.(interface{ StackStatus() *appsapi.StackStatus })
	if !ok || p.App.ApplicationStatus().ObservedGeneration != p.App.GetGeneration() {
		return nil
	}
	var out []string
	for _, c := range status.StackStatus().Components {
		if c.Reason == appsapi.ReasonStorageChangeRejected {
			out = append(out, c.Name)
		}
	}
	return out
}

// restoreRemoved prepares the components that were removed since: nobody has suspended them, and
// their volumes may have grown before they went.
func (p RollbackPlanner) restoreRemoved(d *Rollback, now revisions.Spec) {
	for _, entry := range objectList(d.Spec, "components") {
		c := entry.(map[string]any)
		if current := findByKey(objectList(now, "components"), "name", c["name"]); current != nil {
			if hasData(c) { // its data is found by it
				copyPath(c, current, []string{"resourceName"})
			}
			continue
		}
		delete(c, "suspend")
		if !hasData(c) {
			continue
		}
		for _, volume := range storageVolumes(c) {
			p.growVolume(volume.(map[string]any), componentName(c), d.Target.Number)
		}
		d.Notes = append(d.Notes, p.retainedDataNote(componentName(c)))
	}
}

// growVolume makes a volume of a removed component as large as it was at last. Volumes never become
// smaller, so the largest size that was healthy is what they have.
func (p RollbackPlanner) growVolume(volume map[string]any, component string, number int64) {
	for _, r := range p.Revisions {
		if r.Number <= number || !r.Healthy {
			continue
		}
		c := findByKey(objectList(r.Spec, "components"), "name", component)
		if later := findByKey(storageVolumes(c), "name", volume["name"]); later != nil && sizeLess(volume["size"], later["size"]) {
			volume["size"] = later["size"]
		}
	}
}

func hasData(component map[string]any) bool {
	return component["stateful"] != nil || component["database"] != nil
}

// storageVolumes are those of a component; that of a database has no name.
func storageVolumes(component map[string]any) []any {
	if database, ok := component["database"].(map[string]any); ok {
		return []any{database["storage"]}
	}
	stateful, _ := component["stateful"].(map[string]any)
	return objectList(stateful, "storage")
}

func sizeLess(a, b any) bool {
	x, err := resource.ParseQuantity(fmt.Sprint(a))
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(fmt.Sprint(b))
	return err == nil && x.Cmp(y) < 0
}

// retainedDataNote says which data a component that is added again will have.
func (p RollbackPlanner) retainedDataNote(component string) string {
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

// checkRemoved says what becomes of components that the revision does not have, and refuses to lose
// their data.
func (p RollbackPlanner) checkRemoved(d *Rollback, now revisions.Spec) error {
	for _, entry := range objectList(now, "components") {
		c := entry.(map[string]any)
		if !hasData(c) || findByKey(objectList(d.Spec, "components"), "name", c["name"]) != nil {
			continue
		}
		if d.Spec["deletionPolicy"] == string(appsapi.DeletionDelete) {
			return application.UserErrorf(`revision %d has no component %q, and deletionPolicy Delete would delete its data with it; keep the data first: kubectl patch %s %s -n %s --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`,
				d.Target.Number, componentName(c), strings.ToLower(application.KindOf(p.App)), p.App.GetName(), p.App.GetNamespace())
		}
		d.Notes = append(d.Notes, fmt.Sprintf("%q is not in revision %d: its pods end. Its volumes and credentials are kept, and found again when it is added again.", componentName(c), d.Target.Number))
	}
	return nil
}
