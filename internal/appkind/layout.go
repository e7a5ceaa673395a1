package appkind

import appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"

// Layout describes where the fields that plugin and center edit are in the stored spec. Edits work on the
// stored form, because it keeps fields that this version does not know.
type Layout struct {
	// SingleComponent is set when the spec is the spec of the only component.
	SingleComponent bool
	// Components returns the components of a spec. They share its maps: editing them edits the spec.
	Components func(spec map[string]any) []ComponentSpec
}

// ComponentSpec is a component within a spec.
type ComponentSpec struct {
	// Name is empty for the only component of a kind with SingleComponent.
	Name string
	// RenamedFrom is the previous name of the component.
	RenamedFrom string
	// Server contains replicas and autoscaling; nil for a job.
	Server map[string]any
	// Database contains the references to passwords; nil if it is no database.
	Database map[string]any
	// Data is the part of a component with volumes, DataType an empty value of its type; both are nil for
	// components without volumes.
	Data     map[string]any
	DataType any
}

func appServiceLayout(spec map[string]any) []ComponentSpec {
	return []ComponentSpec{{Server: spec}}
}

func appStackLayout(spec map[string]any) []ComponentSpec {
	var out []ComponentSpec
	list, _ := spec["components"].([]any)
	for _, entry := range list {
		fields, ok := entry.(map[string]any)
		if !ok {
			continue
		}
		var c ComponentSpec
		c.Name, _ = fields["name"].(string)
		c.RenamedFrom, _ = fields["renamedFrom"].(string)
		if service := child(fields, "service"); service != nil {
			c.Server = service
		}
		if stateful := child(fields, "stateful"); stateful != nil {
			c.Server, c.Data, c.DataType = stateful, stateful, &appsapi.StatefulComponent{}
		}
		if database := child(fields, "database"); database != nil {
			c.Server, c.Database = database, database
			c.Data, c.DataType = database, &appsapi.DatabaseComponent{}
		}
		out = append(out, c)
	}
	return out
}

func cloudManagerLayout(spec map[string]any) []ComponentSpec {
	db := child(spec, "db")
	return []ComponentSpec{
		{Name: "db", Server: db, Database: db, Data: db, DataType: &appsapi.CloudManagerDatabase{}},
		{Name: "identity", Server: child(child(spec, "identity"), "deployment")},
		{Name: "front", Server: child(child(spec, "front"), "deployment")},
	}
}

func child(of map[string]any, field string) map[string]any {
	m, _ := of[field].(map[string]any)
	return m
}
