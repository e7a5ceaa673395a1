package desired

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

const (
	// bindingSuffix is appended to the name of the StatefulSet to get the name of the binding Secret.
	bindingSuffix = "-binding"

	// credentialsVolume contains the files with the passwords or their hashes.
	credentialsVolume = "holdfast-auth"
	credentialsMode   = 0o440 // readable for the fsGroup
)

// Database describes how applications connect to a database.
type Database struct {
	appsapi.DatabaseComponent
	// RotationRequestedAt is the last requested rotation of the passwords.
	RotationRequestedAt string
	// BindingSecret is the name of the Secret with the connection details.
	BindingSecret string
	// Host is the DNS name of the database.
	Host string
	// SchemaConflict describes a difference between the schema in the data and in the spec.
	SchemaConflict string
}

func (rc renderContext) buildDatabase(c ExpandedComponent, d *Component) {
	host, _ := rc.address(c)
	d.Data.ServerName = d.Workload.Name + headlessSuffix + "." + rc.Namespace + ".svc"
	d.Database = &Database{DatabaseComponent: *c.Database, RotationRequestedAt: c.Operations.RotationRequestedAt, BindingSecret: d.Workload.Name + bindingSuffix, Host: host}
	if has, claim := recordedSchema(rc.dataLocations[c.Name].retained); has != "" && has != c.Database.Database {
		d.Database.SchemaConflict = fmt.Sprintf("%s contains schema %q, but database is %q: "+
			"bound components would not find their data. Set database to %s",
			claim, has, c.Database.Database, has)
	}
	for i := range d.Endpoints {
		_, address, _ := strings.Cut(d.Endpoints[i].URL, "://")
		d.Endpoints[i].URL = "mysql://" + address
	}
}

// reservedNames are the built-in schemas and accounts of a server.
var reservedNames = []string{"root", "mysql", "sys", "information_schema", "performance_schema", "healthcheck", "mariadb"}

// ImageVersion returns the version of the server in an image; zero if unknown. The version in the spec is used
// only for the image in the spec; the version of another image is read from its tag.
func (d *Database) ImageVersion(image string) mariadb.Version {
	declared := ""
	if image == d.Image {
		declared = d.Version
	}
	v, err := mariadb.ImageVersion(image, declared)
	if err != nil {
		return mariadb.Version{}
	}
	return v
}

// validateSchemaName returns a message if a name is reserved.
func validateSchemaName(db *appsapi.DatabaseComponent) error {
	if db == nil || !slices.Contains(reservedNames, strings.ToLower(db.Database)) {
		return nil
	}
	return fmt.Errorf("database is %q, but the server already has a schema or an account with this name; use another name", db.Database)
}

// ResolveBindings returns the components with two values filled in: the schema name of each database,
// and the names of the binding Secrets.
func ResolveBindings(owner Owner, components []ExpandedComponent, retained []RetainedObject) []ExpandedComponent {
	if !hasDatabase(components) {
		return components
	}
	locations, secrets := locateData(owner, components, retained), map[string]string{}
	out := slices.Clone(components)
	for i, c := range out {
		if c.Database != nil {
			secrets[c.Name] = locations[c.Name].statefulSet + bindingSuffix
			out[i].Database = withSchemaName(*c.Database, c.Name, locations[c.Name].retained)
		}
	}
	for i := range out {
		out[i].BindingSecrets = secrets
	}
	return out
}

// BindingSecretNames returns the names of the binding Secrets of all databases of an application.
func BindingSecretNames(owner Owner, components []ExpandedComponent, retained []RetainedObject) []string {
	var out []string
	locations := locateData(owner, components, retained)
	for _, c := range components {
		if c.Database != nil {
			out = append(out, locations[c.Name].statefulSet+bindingSuffix)
		}
	}
	return out
}

// SecretRefs returns a Ref for each Secret. Each Ref refers to all keys of its Secret.
func SecretRefs(names []string) []Ref {
	var out []Ref
	for _, name := range names {
		out = append(out, Ref{Kind: RefSecret, Name: name})
	}
	return out
}

// BindingSecretName returns the name of the binding Secret of the database that a claim belongs to.
func BindingSecretName(k RetainedObject) string { return k.StatefulSetName() + bindingSuffix }

// withSchemaName sets the name of the schema if the spec does not: from the existing data, or else from the name
// of the component.
func withSchemaName(db appsapi.DatabaseComponent, component string, retained []RetainedObject) *appsapi.DatabaseComponent {
	if db.Database == "" {
		db.Database, _ = recordedSchema(retained)
	}
	if db.Database == "" {
		db.Database = strings.ReplaceAll(component, "-", "_")
	}
	return &db
}

// recordedSchema returns the schema that is recorded on a claim, and the claim.
func recordedSchema(retained []RetainedObject) (schema string, claim RetainedObject) {
	for _, k := range retained {
		if s := k.GetAnnotations()[k.keys.Schema]; k.Claim != nil && s != "" {
			return s, k
		}
	}
	return "", RetainedObject{}
}

// schemaEnv returns the variables with the schema and account that the image creates on an empty volume.
func schemaEnv(db *appsapi.DatabaseComponent) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "MARIADB_DATABASE", Value: db.Database}, {Name: "MARIADB_USER", Value: db.Database}}
}

// BindingLabels returns the labels of a binding Secret. They do not include the workload label, so that the
// Secret is not listed as retained data.
func BindingLabels(owner Owner, c Component) map[string]string {
	return childLabels(owner, ExpandedComponent{Component: appsapi.Component{Name: c.Name, Database: &appsapi.DatabaseComponent{}}})
}

// mountCredentials mounts the credentials as files. Kubernetes updates the files in running pods. A server reads
// passwords only at its first start, and its certificate when the operator asks it to.
func mountCredentials(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c ExpandedComponent, set string) {
	secret := corev1ac.SecretVolumeSource().WithSecretName(set + authSuffix).WithDefaultMode(credentialsMode)
	if c.Database != nil {
		for _, key := range []string{mariadb.KeyCertificate, mariadb.KeyPrivateKey} {
			secret.WithItems(corev1ac.KeyToPath().WithKey(key).WithPath(key))
		}
	}
	for _, p := range c.Credentials {
		if p.File == "" {
			continue
		}
		key := p.Key
		if p.Hashed {
			key = mariadb.HashKey(key)
		}
		secret.WithItems(corev1ac.KeyToPath().WithKey(key).WithPath(p.File))
	}
	if len(secret.Items) == 0 {
		return
	}
	pod.WithVolumes(corev1ac.Volume().WithName(credentialsVolume).WithSecret(secret))
	main.WithVolumeMounts(corev1ac.VolumeMount().WithName(credentialsVolume).WithMountPath(appsapi.CredentialsPath).WithReadOnly(true))
}
