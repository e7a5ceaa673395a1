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
	"github.com/holdfast-dev/holdfast/internal/appkind"
	"github.com/holdfast-dev/holdfast/internal/objdiff"
	"github.com/holdfast-dev/holdfast/internal/revision"
	"github.com/holdfast-dev/holdfast/internal/revision/reader"
)

// Rollback is the plan of a rollback to a revision.
type Rollback struct {
	Target reader.Revision
	// Spec is the new spec.
	Spec revision.Spec
	// Changes are the differences from the current spec to Spec.
	Changes []revision.SpecChange
	// Retained are the differences from the revision to Spec, because current values are kept.
	Retained []revision.SpecChange
	// Notes describe the effects on data.
	Notes []string
}

// NotableRetained returns Retained without fields that revisions do not record, such as passwords, and
// without names, which are in the notes.
func (r *Rollback) NotableRetained() []revision.SpecChange {
	return slices.DeleteFunc(slices.Clone(r.Retained), func(c revision.SpecChange) bool {
		return slices.Contains([]string{"", "renamedFrom", "rootPass"}, c.Path.String())
	})
}

// RollbackPlanner plans rollbacks of an application.
type RollbackPlanner struct {
	App appkind.Application
	// CurrentSpec is the complete stored spec.
	CurrentSpec revision.Spec
	Revisions   []reader.Revision
}

// NewRollbackPlanner reads the revisions of an application and its stored spec.
func NewRollbackPlanner(ctx context.Context, c client.Client, app appkind.Application) (RollbackPlanner, *unstructured.Unstructured, error) {
	if app.GetDeletionTimestamp() != nil {
		return RollbackPlanner{}, nil, appkind.UserErrorf("%s is being deleted and cannot be rolled back; recreate it from its manifest",
			appkind.Title(app))
	}
	all, err := reader.List(ctx, c, app)
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	raw, err := ReadRaw(ctx, c, app)
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	if raw.GetResourceVersion() != app.GetResourceVersion() && raw.GetGeneration() != app.GetGeneration() {
		return RollbackPlanner{}, nil, changedMeanwhileError("%s is being changed by another client; retry", appkind.Title(app))
	}
	spec, _, err := unstructured.NestedMap(raw.Object, "spec")
	if err != nil {
		return RollbackPlanner{}, nil, err
	}
	return RollbackPlanner{App: app, CurrentSpec: spec, Revisions: all}, raw, nil
}

// Plan plans a rollback to a revision; 0 means the newest healthy revision that differs from the
// current spec.
func (p RollbackPlanner) Plan(number int64) (*Rollback, error) {
	if number != 0 {
		r, err := reader.Find(p.App, p.Revisions, number)
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
	const noRevision = "%s has no earlier revision that was healthy and differs from the current spec; "
	const listHint = "kubectl holdfast history %s -n %s"
	args := []any{appkind.Title(p.App), p.App.GetName(), p.App.GetNamespace()}
	return nil, appkind.UserErrorf(noRevision+"choose a revision with --to-revision, as listed by "+listHint, args...).
		WithNonCLIMessage(noRevision+"choose a revision by its number, as listed by "+listHint, args...)
}

// PlanFor plans a rollback to a revision.
func (p RollbackPlanner) PlanFor(r reader.Revision) (*Rollback, error) {
	kind := appkind.Of(p.App)
	d := &Rollback{Target: r, Spec: runtime.DeepCopyJSON(p.CurrentSpec)}
	for field, value := range runtime.DeepCopyJSON(r.Spec) {
		d.Spec[field] = value // fields that revisions do not record keep their values
	}
	for _, spec := range []revision.Spec{p.CurrentSpec, d.Spec} {
		if err := p.checkKnownFields(spec); err != nil {
			return nil, err
		}
	}
	recorded := runtime.DeepCopyJSON(d.Spec)
	renamedCurrent := p.applyRenames(d)
	if err := checkTypes(renamedCurrent, d.Spec, r.Number); err != nil {
		return nil, err
	}
	applyKeepRules(kind.History.KeepRules, d.Spec, renamedCurrent, p.componentsWithRejectedStorage())
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

// diffSpecs compares specs in the form that the operator records.
func diffSpecs(kind *appkind.Kind, before, after revision.Spec) ([]revision.SpecChange, error) {
	beforeSpec, err := reader.Canonical(kind, before)
	if err != nil {
		return nil, err
	}
	afterSpec, err := reader.Canonical(kind, after)
	if err != nil {
		return nil, err
	}
	return revision.Diff(beforeSpec, afterSpec), nil
}

// checkKnownFields rejects unknown fields of components with data: the keep rules do not cover them.
func (p RollbackPlanner) checkKnownFields(spec revision.Spec) error {
	for _, c := range appkind.Of(p.App).Layout.Components(spec) {
		if c.Data == nil {
			continue
		}
		if err := p.checkStrict(c.Name, c.Data, c.DataType); err != nil {
			return err
		}
	}
	for _, c := range objectList(spec, "components") {
		for field := range c.(map[string]any) {
			if !slices.Contains(knownFields, field) {
				return p.unknownFieldError(componentName(c), field)
			}
		}
	}
	return nil
}

// checkStrict decodes a component with data and rejects unknown fields.
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
	const unknown = "component %q of %s has a field that this version of the "
	const next = " does not support (%s), so a rollback could lose data; " +
		"install the same version as the operator (kubectl holdfast version shows both versions)"
	args := []any{component, appkind.Title(p.App), what}
	return appkind.UserErrorf(unknown+"plugin"+next, args...).WithNonCLIMessage(unknown+"center"+next, args...)
}

// applyRenames sets renamedFrom on components of the revision that have another name now. Otherwise they
// would be new components, which conflict with the data of the current ones. It returns the current spec
// with the names of the revision.
func (p RollbackPlanner) applyRenames(d *Rollback) revision.Spec {
	now := runtime.DeepCopyJSON(p.CurrentSpec)
	current := objectList(now, "components")
	for _, c := range objectList(d.Spec, "components") {
		oldName := componentName(c)
		if findByKey(current, "name", oldName) != nil {
			continue
		}
		newName := p.currentName(oldName, d.Target.Number)
		if former, _ := c.(map[string]any)["renamedFrom"].(string); newName == "" && findByKey(current, "name", former) != nil {
			newName = former // the rename of the revision was reverted later
		}
		if newName == "" || findByKey(objectList(d.Spec, "components"), "name", newName) != nil {
			continue
		}
		c.(map[string]any)["renamedFrom"] = newName
		findByKey(current, "name", newName)["name"] = oldName
		d.Notes = append(d.Notes, fmt.Sprintf("%q is renamed back to %q; renamedFrom is set, so the component keeps its volumes and credentials.", newName,
			oldName))
	}
	return now
}

// currentName returns the current name of a component of a revision, or "" if it was removed.
func (p RollbackPlanner) currentName(was string, number int64) string {
	specs := []revision.Spec{}
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

// checkTypes rejects a rollback that changes the type of a component, which the API does not allow.
func checkTypes(now, target revision.Spec, number int64) error {
	for _, c := range objectList(target, "components") {
		current := findByKey(objectList(now, "components"), "name", componentName(c))
		if current == nil || componentType(current) == componentType(c.(map[string]any)) {
			continue
		}
		return appkind.UserErrorf("component %q has type %s and had type %s in revision %d, but the type cannot change; remove the component "+
			"from the spec first (deletionPolicy Retain keeps its data), then roll back",
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

// componentsWithRejectedStorage returns the components whose storage change the operator has rejected.
func (p RollbackPlanner) componentsWithRejectedStorage() []string {
	status, ok := p.App.(appkind.Stack)
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

// restoreRemoved prepares components that were removed after the revision: their volumes can have been expanded
// before the removal.
func (p RollbackPlanner) restoreRemoved(d *Rollback, now revision.Spec) {
	for _, entry := range objectList(d.Spec, "components") {
		c := entry.(map[string]any)
		if current := findByKey(objectList(now, "components"), "name", c["name"]); current != nil {
			if hasData(c) { // the name of its volumes depends on it
				copyPath(c, current, objdiff.Path{{Name: "resourceName"}})
			}
			continue
		}
		if !hasData(c) {
			continue
		}
		for _, volume := range storageVolumes(c) {
			p.growVolume(volume.(map[string]any), componentName(c), d.Target.Number)
		}
		d.Notes = append(d.Notes, p.retainedDataNote(componentName(c)))
	}
}

// growVolume sets the size of a volume of a removed component to its last size. Volumes never shrink, so
// this is the largest size of a healthy revision.
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

// storageVolumes returns the volumes of a component; that of a database has no name.
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

// retainedDataNote describes the data of a component that is added again.
func (p RollbackPlanner) retainedDataNote(component string) string {
	var claims []string
	if status, ok := p.App.(appkind.Stack); ok {
		for _, r := range status.StackStatus().Retained {
			if r.Component == component {
				claims = append(claims, r.Kind+" "+r.Name)
			}
		}
	}
	if len(claims) == 0 {
		return fmt.Sprintf("%q is added again. status.retained lists no data for it, so it starts with new, empty volumes.", component)
	}
	return fmt.Sprintf("%q is added again with its retained data: %s.", component, strings.Join(claims, ", "))
}

// checkRemoved adds notes about components that the revision does not have, and rejects the rollback if
// their data would be deleted.
func (p RollbackPlanner) checkRemoved(d *Rollback, now revision.Spec) error {
	for _, entry := range objectList(now, "components") {
		c := entry.(map[string]any)
		if !hasData(c) || findByKey(objectList(d.Spec, "components"), "name", c["name"]) != nil {
			continue
		}
		if d.Spec["deletionPolicy"] == string(appsapi.DeletionDelete) {
			return appkind.UserErrorf(`revision %d has no component %q, and deletionPolicy Delete would delete its data; retain the data first: kubectl patch %s %s -n %s --type=merge -p '{"spec":{"deletionPolicy":"Retain"}}'`,
				d.Target.Number, componentName(c), strings.ToLower(appkind.Of(p.App).Kind), p.App.GetName(), p.App.GetNamespace())
		}
		d.Notes = append(d.Notes,
			fmt.Sprintf("%q is not in revision %d: its pods are deleted. Its volumes and credentials are retained and reused when it is added "+
				"again.", componentName(c), d.Target.Number))
	}
	return nil
}
