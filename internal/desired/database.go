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
	// bindingSuffix makes the name of the Secret that says how to get in of that of the
	// StatefulSet.
	bindingSuffix = "-binding"

	// The volume with the files that a container finds passwords in, or their hashes.
	credentialsVolume = "holdfast-auth"
	credentialsMode   = 0o440 // for the group of the pod
)

// Database is what the application of a database gets in with.
type Database struct {
	appsapi.DatabaseComponent
	// BindingSecret is the Secret that says how.
	BindingSecret string
	// Host is where.
	Host string
	// SchemaConflict is why its data cannot be used as the spec says.
	SchemaConflict string
}

func (rc renderContext) buildDatabase(c appsapi.Component, d *Component) {
	host, _ := rc.address(c)
	d.Database = &Database{DatabaseComponent: *c.Database, BindingSecret: d.Workload.Name + bindingSuffix, Host: host}
	if has, claim := recordedSchema(rc.dataLocations[c.Name].retained); has != "" && has != c.Database.Database {
		d.Database.SchemaConflict = fmt.Sprintf("%s has the schema %q, and database says %q: with that, everybody who is bound would find nothing. Let database say %s",
			claim, has, c.Database.Database, has)
	}
	if d.InvalidMessage == "" {
		d.InvalidMessage = invalidSchemaName(c.Database.Database)
	}
	for i := range d.Endpoints {
		_, address, _ := strings.Cut(d.Endpoints[i].URL, "://")
		d.Endpoints[i].URL = "mysql://" + address
	}
}

// reservedNames are the schemas and accounts that a server has of its own.
var reservedNames = []string{"root", "mysql", "sys", "information_schema", "performance_schema", "healthcheck", "mariadb"}

// ImageVersion is that of an image, which may be another one than that of the spec; zero when nothing says what it is.
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

// invalidSchemaName says why a name cannot be that of a schema and its account.
func invalidSchemaName(name string) string {
	if !slices.Contains(reservedNames, strings.ToLower(name)) {
		return ""
	}
	return fmt.Sprintf("database is %q, and the server has a schema or an account of that name; choose another one", name)
}

// ResolveBindings are components whose databases know the name of their schema, and whose bindings to them
// name the Secret that says how to get in.
func ResolveBindings(owner Owner, components []appsapi.Component, retained []RetainedObject) []appsapi.Component {
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
		out[i].Bindings = slices.Clone(out[i].Bindings)
		for j, b := range out[i].Bindings {
			out[i].Bindings[j].Secret = secrets[b.Component]
		}
	}
	return out
}

// BindingSecretNames are the Secrets that say how to get into the databases of an application.
func BindingSecretNames(owner Owner, components []appsapi.Component, retained []RetainedObject) []string {
	var out []string
	locations := locateData(owner, components, retained)
	for _, c := range components {
		if c.Database != nil {
			out = append(out, locations[c.Name].statefulSet+bindingSuffix)
		}
	}
	return out
}

// SecretRefs refer to Secrets, and to nothing that is in them.
func SecretRefs(names []string) []Ref {
	var out []Ref
	for _, name := range names {
		out = append(out, Ref{Kind: RefSecret, Name: name})
	}
	return out
}

// BindingSecretName is the name of the Secret that says how to get into the database that a claim has the data of, if it is
// one of a database.
func BindingSecretName(k RetainedObject) string { return k.StatefulSetName() + bindingSuffix }

// withSchemaName fills in the name of the schema: that of the data, or else that of the component.
func withSchemaName(db appsapi.DatabaseComponent, component string, retained []RetainedObject) *appsapi.DatabaseComponent {
	if db.Database == "" {
		db.Database, _ = recordedSchema(retained)
	}
	if db.Database == "" {
		db.Database = strings.ReplaceAll(component, "-", "_")
	}
	return &db
}

// recordedSchema is the name of the schema that data has, as far as that is known.
func recordedSchema(retained []RetainedObject) (schema string, claim RetainedObject) {
	for _, k := range retained {
		if s := k.GetAnnotations()[appsapi.AnnotationSchema]; k.Claim != nil && s != "" {
			return s, k
		}
	}
	return "", RetainedObject{}
}

// schemaEnv tells the image which schema and account to make on an empty volume.
func schemaEnv(db *appsapi.DatabaseComponent) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "MARIADB_DATABASE", Value: db.Database}, {Name: "MARIADB_USER", Value: db.Database}}
}

// BindingLabels are those of the Secret that says how to get in. It has none by which data is found.
func BindingLabels(owner Owner, c Component) map[string]string {
	return childLabels(owner, appsapi.Component{Name: c.Name, Database: &appsapi.DatabaseComponent{}})
}

// mountCredentials shows the container the files of its credentials. What is in them later does
// not matter to pods that run: a server reads them once.
func mountCredentials(pod *corev1ac.PodSpecApplyConfiguration, main *corev1ac.ContainerApplyConfiguration, c *appsapi.StatefulComponent, set string) {
	secret := corev1ac.SecretVolumeSource().WithSecretName(set + authSuffix).WithDefaultMode(credentialsMode)
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
