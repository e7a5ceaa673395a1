package appkind

// KeepRule is a field of the spec that a rollback does not change. In a path, components[*] stands for
// every component of both specs; a path that ends with it keeps the set of items.
type KeepRule struct {
	Path string
	// Storage rules do not apply to a component whose storage change was rejected, because the rejected
	// storage does not exist.
	Storage bool
	// Component is the component of a rule whose path does not contain components[*].
	Component string
}

// A rollback must not change the storage of volumes, the data format of a database server or its
// credentials. A new type of component with data needs rules here.
//
// Fields that revisions do not store, such as deletionPolicy and operations, never change. The image of a
// program is restored. The image of a database is not, because a server must not be older than its data
// files.
var (
	appStackKeepRules = []KeepRule{
		{Path: "components[*].stateful.credentials[*].secretRef"},
		{Path: "components[*].stateful.storage[*]", Storage: true},
		{Path: "components[*].stateful.storage[*].size", Storage: true},
		{Path: "components[*].stateful.storage[*].className", Storage: true},
		{Path: "components[*].stateful.storage[*].accessMode", Storage: true},
		{Path: "components[*].database.version"},
		{Path: "components[*].database.image"},
		{Path: "components[*].database.database"},
		{Path: "components[*].database.rootPasswordSecretRef"},
		{Path: "components[*].database.passwordSecretRef"},
		{Path: "components[*].database.rotation"},
		{Path: "components[*].database.storage", Storage: true},
	}
	cloudManagerKeepRules = []KeepRule{
		{Path: "db.rootPass"},
		{Path: "db.rootPasswordSecretRef"},
		{Path: "db.rotation"},
		{Path: "db.statefulSet.image"},
		{Path: "db.statefulSet.storage", Storage: true, Component: "db"},
	}
)
