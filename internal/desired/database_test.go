package desired

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// databaseSpec has a database with a recent image, a database whose image does not support password hashes, and a
// client.
const databaseSpec = `
- name: main-db
  database:
    version: "11.8"
    storage: {size: 20Gi, className: fast}
    config: "[mariadbd]\nmax_connections=50\n"
    resources: {limits: {memory: 1Gi}}
    passwordSecretRef: {name: given, key: password}
- {name: old, database: {version: "10.6.9", database: legacy, storage: {size: 1Gi}, requireTLS: true}}
- {name: web, bindings: [{component: main-db}, {component: old, envPrefix: OLD}], service: {image: "shop/web:1"}}
`

// annotatedFixture returns the object of a fixture with one annotation.
func annotatedFixture(k retainedFixture, key, value string) RetainedObject {
	object := k.object()
	object.SetAnnotations(map[string]string{key: value})
	return object
}

func secretFixture(name, set, component string) retainedFixture {
	k := ownedFixture(name, set, component)
	k.secret = true
	return k
}

func buildDatabases(t *testing.T, spec string, retained ...RetainedObject) []Component {
	t.Helper()
	return Build(stack, components(t, spec), ClusterState{Retained: retained})
}

func TestGoldenDatabase(t *testing.T) {
	var got bytes.Buffer
	for _, c := range buildDatabases(t, databaseSpec) {
		for _, child := range c.Children {
			got.WriteString("---\n")
			got.Write(render(t, child, nil))
		}
	}
	const file = "testdata/database.yaml"
	if *update {
		must(os.WriteFile(file, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	must(err)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("a difference in a pod template restarts the databases of all users (-want +got):\n%s", diff)
	}
}

func TestBuildDatabase(t *testing.T) {
	all := buildDatabases(t, databaseSpec)
	main := all[0]
	if main.Type != appsapi.ComponentDatabase || main.InvalidMessage != "" {
		t.Errorf("got type %s, message %q", main.Type, main.InvalidMessage)
	}
	if diff := cmp.Diff([]appsapi.Endpoint{{Name: "mysql", URL: "mysql://shop-main-db.shop.svc:3306"}}, main.Endpoints); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
	type access struct{ Schema, BindingSecret, Host, Conflict string }
	want := []access{
		{"main_db", "shop-main-db-binding", "shop-main-db.shop.svc", ""},
		{"legacy", "shop-old-binding", "shop-old.shop.svc", ""},
	}
	for i, w := range want {
		db := all[i].Database
		if diff := cmp.Diff(w, access{db.Database, db.BindingSecret, db.Host, db.SchemaConflict}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", all[i].Name, diff)
		}
	}
	web := all[2]
	if diff := cmp.Diff([]string{"shop-main-db-binding", "shop-old-binding"}, web.ConsumedSecrets); diff != "" {
		t.Errorf("consumed Secrets (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"main-db", "old"}, web.BoundTo); diff != "" {
		t.Errorf("bound to (-want +got):\n%s", diff)
	}
}

func TestRequiredKeysOfDatabase(t *testing.T) {
	for _, c := range buildDatabases(t, databaseSpec)[:2] {
		const want = "root-password,root-password-hash,password,password-hash,tls.crt,tls.key,ca.crt"
		if got := c.Data.RequiredKeys(); got != want {
			t.Errorf("%s: got %s, want %s", c.Name, got, want)
		}
		if want := "shop-" + c.Name + "-headless.shop.svc"; c.Data.ServerName != want {
			t.Errorf("%s: got server name %s, want %s", c.Name, c.Data.ServerName, want)
		}
	}
}

func TestSpecPaths(t *testing.T) {
	spec := components(t, databaseSpec)[:1]
	got := SetSpecPaths(spec, func(c appsapi.Component) string { return "spec.components[" + c.Name + "]" })
	if got[0].SpecPath != "spec.components[main-db]" {
		t.Errorf("got %q", got[0].SpecPath)
	}
}

func TestSchemaName(t *testing.T) {
	recorded := func(schema string) []RetainedObject {
		return []RetainedObject{
			annotatedFixture(secretFixture("shop-my-db-auth", "shop-my-db", "my-db"), appsapi.DefaultKeys.Schema, "of-a-secret"),
			ownedFixture("data-shop-my-db-0", "shop-my-db", "my-db").object(),
			annotatedFixture(ownedFixture("data-shop-my-db-1", "shop-my-db", "my-db"), appsapi.DefaultKeys.Schema, schema),
		}
	}
	cases := map[string]struct {
		spec              string
		retained          []RetainedObject
		want              string
		conflict, invalid string
	}{
		"from the component":    {want: "my_db"},
		"from the spec":         {spec: "database: orders", want: "orders"},
		"from the volume":       {retained: recorded("orders"), want: "orders"},
		"spec and volume agree": {spec: "database: orders", retained: recorded("orders"), want: "orders"},
		"a reserved name": {
			spec: "database: MySQL", want: "MySQL",
			invalid: `database is "MySQL", but the server already has a schema or an account with this name; use another name`,
		},
		"two errors": {
			spec: "database: root, scheduling: {tolerations: [{value: b}]}", want: "root",
			invalid: "scheduling.tolerations[0] has no key; set the key of a taint, or operator Exists to match all taints. " +
				`database is "root", but the server already has a schema or an account with this name; use another name`,
		},
		"the volume has another schema": {
			spec: "database: shop", retained: recorded("orders"), want: "shop",
			conflict: `PersistentVolumeClaim data-shop-my-db-1 contains schema "orders", but database is "shop": ` +
				`bound components would not find their data. Set database to orders`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := buildDatabases(t, `[{name: my-db, database: {version: "11.8", storage: {size: 1Gi}, `+tc.spec+`}}]`, tc.retained...)[0]
			got := []string{c.Database.Database, c.Database.SchemaConflict, c.InvalidMessage}
			if diff := cmp.Diff([]string{tc.want, tc.conflict, tc.invalid}, got); diff != "" {
				t.Errorf("schema, conflict and message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolveBindingsNamesTheSecretOfADatabase(t *testing.T) {
	spec := components(t, `[{name: db, database: {version: "11.8", storage: {size: 1Gi}}},
		{name: api, service: {image: a, ports: [{port: 80}]}},
		{name: web, bindings: [{component: db}, {component: api}], service: {image: a}}]`)
	moved := []RetainedObject{ownedFixture("data-old-0", "old", "db").object()}
	got := ResolveBindings(stack, spec, moved)
	if diff := cmp.Diff(map[string]string{"db": "old-binding"}, got[2].BindingSecrets); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if spec[0].Database.Database != "" || spec[2].BindingSecrets != nil {
		t.Error("the components of the caller were changed")
	}
	if diff := cmp.Diff([]string{"old-binding"}, BindingSecretNames(stack, spec, moved)); diff != "" {
		t.Errorf("binding Secrets (-want +got):\n%s", diff)
	}
	if got := BindingSecretName(moved[0]); got != "old-binding" {
		t.Errorf("the binding Secret of %s is %q", moved[0], got)
	}
}

func TestSecretRefsHaveNoKeys(t *testing.T) {
	want := []Ref{{Kind: "Secret", Name: "a"}, {Kind: "Secret", Name: "b"}}
	if diff := cmp.Diff(want, SecretRefs([]string{"a", "b"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBindingSecretIsNotRetainedData: retained objects are found by the workload label, which a binding Secret lacks.
func TestBindingSecretIsNotRetainedData(t *testing.T) {
	want := map[string]string{
		"app.kubernetes.io/name": "database", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/part-of": "shop",
		"app.kubernetes.io/component": "db", "app.kubernetes.io/managed-by": "holdfast",
		"apps.holdfast.dev/owner-kind": "AppStack", "apps.holdfast.dev/owner-uid": string(stack.UID),
	}
	if diff := cmp.Diff(want, BindingLabels(stack, Component{Name: "db", WorkloadID: "statefulset-shop-db"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDeclaredVersionAppliesToImageOfSpecOnly(t *testing.T) {
	db := &Database{DatabaseComponent: appsapi.DatabaseComponent{Image: "registry/mine:stable", Version: "11.4"}}
	for image, want := range map[string]mariadb.Version{
		"registry/mine:stable": {Major: 11, Minor: 4},
		"registry/mine:old":    {},
		"mariadb:10.11.6":      {Major: 10, Minor: 11, Patch: 6, HasPatch: true},
	} {
		if diff := cmp.Diff(want, db.ImageVersion(image)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", image, diff)
		}
	}
}

func TestExpandKeepsOtherComponents(t *testing.T) {
	spec := []appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{}},
		{Name: "db", Database: &appsapi.DatabaseComponent{Image: "mine:1", Version: "11.8"}}}
	got := ExpandComponents(spec)
	if diff := cmp.Diff(ExpandedComponent{Component: spec[0]}, got[0]); diff != "" {
		t.Errorf("the service changed (-want +got):\n%s", diff)
	}
	if got[1].Stateful.Image != "mine:1" || spec[1].Stateful != nil {
		t.Errorf("got image %q; the component of the caller has a StatefulSet: %t", got[1].Stateful.Image, spec[1].Stateful != nil)
	}
}

// TestPasswordHashSupport: images without support for hashes get the password in a file.
func TestPasswordHashSupport(t *testing.T) {
	for image, hashed := range map[string]bool{
		"mariadb:11.8": true, "mariadb:10.11": true, "mariadb:10.10.2": true, "mariadb:10.6": true,
		"mariadb:10.6.10": true, "mariadb:10.6.9": false, "mariadb:10.2.44": false, "mariadb:5.5.64": false, "registry/mine:stable": true,
	} {
		db := ExpandComponents([]appsapi.Component{{Name: "db", Database: &appsapi.DatabaseComponent{Image: image}}})[0]
		want := []string{"MARIADB_ROOT_PASSWORD_FILE", "MARIADB_PASSWORD_FILE"}
		if hashed {
			want = []string{"MARIADB_ROOT_PASSWORD_HASH_FILE", "MARIADB_PASSWORD_HASH_FILE"}
		}
		if diff := cmp.Diff(want, []string{db.Stateful.Env[0].Name, db.Stateful.Env[2].Name}); diff != "" {
			t.Errorf("%s: variables (-want +got):\n%s", image, diff)
		}
		if db.Credentials[0].Hashed != hashed || db.Credentials[1].Hashed != hashed {
			t.Errorf("%s: got credentials %+v, want hashed: %t", image, db.Credentials, hashed)
		}
	}
}

// TestCredentialResetAddsInitContainer requests a reset on the Secret with the credentials, and on another object.
func TestCredentialResetAddsInitContainer(t *testing.T) {
	const spec = `[{name: db, database: {version: "11.8", storage: {size: 1Gi}}}]`
	auth := secretFixture("shop-db-auth", "shop-db", "db")
	claim := annotatedFixture(ownedFixture("data-shop-db-0", "shop-db", "db"), appsapi.DefaultKeys.ResetCredentials, "now")
	if pod := renderedPod(t, buildDatabases(t, spec, claim, auth.object())[0]); len(pod.InitContainers) != 0 {
		t.Errorf("got init containers %+v, and no reset is requested on the Secret", pod.InitContainers)
	}
	pod := renderedPod(t, buildDatabases(t, spec, claim, annotatedFixture(auth, appsapi.DefaultKeys.ResetCredentials, "today"))[0])
	main := pod.Containers[0]
	want := []corev1.Container{{
		Name: "reset-credentials", Image: main.Image, Command: []string{"sh", "-c", mariadb.ResetScript},
		Env:       []corev1.EnvVar{{Name: "RESET", Value: "today"}, {Name: "HASH_FILE", Value: "/etc/holdfast/reset/root"}},
		Resources: main.Resources, SecurityContext: main.SecurityContext, TerminationMessagePolicy: main.TerminationMessagePolicy,
		VolumeMounts: append(main.VolumeMounts, corev1.VolumeMount{Name: "holdfast-reset", MountPath: "/etc/holdfast/reset", ReadOnly: true}),
	}}
	if diff := cmp.Diff(want, pod.InitContainers); diff != "" {
		t.Errorf("init containers (-want +got):\n%s", diff)
	}
	wantVolume := corev1.Volume{Name: "holdfast-reset", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: "shop-db-auth", DefaultMode: new(int32(0o440)), Items: []corev1.KeyToPath{{Key: "root-password-hash", Path: "root"}}}}}
	if diff := cmp.Diff(wantVolume, pod.Volumes[len(pod.Volumes)-1]); diff != "" {
		t.Errorf("volume (-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"app": true, "reset-credentials": true, "sidecar": false} {
		if got := IsServerContainer(name); got != want {
			t.Errorf("container %s runs the server: %t, want %t", name, got, want)
		}
	}
}
