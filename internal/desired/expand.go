package desired

import (
	"fmt"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// ExpandedComponent is a component with values derived from its spec. For a database, Stateful contains the
// settings of the database server.
type ExpandedComponent struct {
	appsapi.Component
	// SpecPath is the path of the component in the spec of the application, for example
	// spec.components[web].service. Only messages use it. It is empty for kinds that do not call SetSpecPaths.
	SpecPath string `json:"-"`
	// Operations are the requests for the component.
	Operations appsapi.ComponentOperations
	// Credentials are the credentials of the stateful component.
	Credentials []Credential
	// BindingSecrets are the names of binding Secrets by bound component. The names depend on existing data:
	// see ResolveBindings.
	BindingSecrets map[string]string
	// InvalidType is a message if the component has no type or several types.
	InvalidType string `json:"-"`
}

// Credential is a credential with values derived from its component.
type Credential struct {
	appsapi.Credential
	// Value is the password if the spec of the application contains it.
	Value string
	// File is the name of the file in CredentialsPath with the password; empty if the password is not mounted
	// as a file.
	File string
	// Hashed means that the file contains the MariaDB hash of the password.
	Hashed bool
}

// PlainPassword is a password in the spec of an application: the value of a credential of a component.
type PlainPassword struct{ Component, Key, Value string }

// ExpandComponents adds the derived values of ExpandedComponent to components.
func ExpandComponents(components []appsapi.Component, passwords ...PlainPassword) []ExpandedComponent {
	out := make([]ExpandedComponent, len(components))
	for i, c := range components {
		out[i].Component = c
		out[i].InvalidType = validateType(c)
		if c.Database != nil {
			out[i].expandDatabase()
		}
		out[i].expandCredentials(passwords)
	}
	return out
}

// validateType returns a message unless a component has one type. The API server checks the built-in kinds.
func validateType(c appsapi.Component) string {
	types := 0
	for _, set := range []bool{c.Service != nil, c.Stateful != nil, c.Job != nil, c.Database != nil} {
		if set {
			types++
		}
	}
	if types == 1 {
		return ""
	}
	return fmt.Sprintf("Component %q has %d types; set exactly one of service, stateful, job and database", c.Name, types)
}

// SetSpecPaths adds the path of each component in the spec of its application.
func SetSpecPaths(components []ExpandedComponent, path func(appsapi.Component) string) []ExpandedComponent {
	for i := range components {
		components[i].SpecPath = path(components[i].Component)
	}
	return components
}

// SetOperations adds the requests for each component.
func SetOperations(components []ExpandedComponent, operations *appsapi.Operations) []ExpandedComponent {
	for i := range components {
		c := &components[i]
		c.Operations = operations.OperationsOf(c.Name, c.RenamedFrom)
		switch n := c.Operations.Replicas; {
		case n == nil:
		case c.Service != nil && c.Service.Replicas == nil && c.Service.Autoscaling == nil:
			service := *c.Service // the original belongs to the application
			service.Replicas, c.Service = n, &service
		case c.Stateful != nil && c.Stateful.Replicas == nil:
			stateful := *c.Stateful
			stateful.Replicas, c.Stateful = n, &stateful
		}
	}
	return components
}

// expandDatabase adds the server of a database.
func (c *ExpandedComponent) expandDatabase() {
	db := *c.Database
	if db.Image == "" {
		db.Image = "mariadb:" + db.Version
	}
	c.Database, c.Stateful = &db, mariaDBComponent(&db)
}

// credentialFiles are the names of the files with the passwords of a database server, or their hashes, by
// credential key.
var credentialFiles = map[string]string{mariadb.KeyRootPassword: rootFile, mariadb.KeyPassword: userFile}

func (c *ExpandedComponent) expandCredentials(passwords []PlainPassword) {
	if c.Stateful == nil {
		return
	}
	for _, declared := range c.Stateful.Credentials {
		credential := Credential{Credential: declared}
		for _, p := range passwords {
			if p.Component == c.Name && p.Key == declared.Key {
				credential.Value = p.Value
			}
		}
		if c.Database != nil {
			credential.File, credential.Hashed = credentialFiles[declared.Key], supportsPasswordHash(c.Database)
		}
		c.Credentials = append(c.Credentials, credential)
	}
}
