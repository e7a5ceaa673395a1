package appstack_test

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

const databaseSpec = `
components:
- name: db
  database: {version: "11.8", storage: {size: 1Gi}}
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1", replicas: 2}
`

// accountHashes returns the password hashes of an account in the server.
func (w *world) accountHashes(user string) []string {
	w.Helper()
	pod := w.pod("shop-db-0")
	w.Expect(pod).NotTo(BeNil())
	volume := w.Databases.Volume(w.Context(), pod)
	w.Expect(volume).NotTo(BeNil())
	return volume.Hashes(user)
}

// checkPasswords checks that each account has exactly the stored password, and that the binding has it, too.
func (w *world) checkPasswords() error {
	stored, binding := w.credentials("shop-db-auth"), w.credentials("shop-db-binding")
	if stored == nil || binding == nil {
		return fmt.Errorf("got Secrets %v and %v", stored, binding)
	}
	for key, user := range map[string]string{"root-password": "root", "password": "db"} {
		if stored.Data["pending-"+key] != nil {
			return fmt.Errorf("rotation of %s is pending", key)
		}
		if got, want := w.accountHashes(user), []string{mariadb.Hash(string(stored.Data[key]))}; !slices.Equal(got, want) {
			return fmt.Errorf("%s: got %v in the server, want the stored %v", user, got, want)
		}
	}
	if string(binding.Data["password"]) != string(stored.Data["password"]) {
		return fmt.Errorf("the binding has a different password")
	}
	return nil
}

// databaseTimeout is the maximum time for an operation with a dozen database checks, while other tests run.
const databaseTimeout = "180s"

func TestDatabaseBecomesReady(t *testing.T) {
	w := newStory(t)
	calls := w.OperatorRequests(func() {
		w.create(databaseSpec)
		w.waitReady()
	})
	w.Expect(calls.Of("pods").Reads()).To(BeEmpty(), "without a rotation no live reads of pods are needed")
	w.Expect(w.checkPasswords()).To(Succeed())
	binding := w.credentials("shop-db-binding")
	w.Expect(binding.Type).To(Equal(corev1.SecretType("servicebinding.io/mysql")))
	w.Expect(binding.OwnerReferences).To(ConsistOf(HaveField("UID", w.statefulSet("shop-db").UID)))
	status := w.stack().Status
	w.Expect(status.Binding).To(Equal(&appsapi.SecretReference{Name: "shop-db-binding"}))
	w.Expect(status.Components[0].Type).To(Equal(appsapi.ComponentDatabase))
	w.Expect(w.claim("data-shop-db-0").Annotations).To(HaveKeyWithValue(appsapi.DefaultKeys.ServerVersion, "11.8.0"))
	w.expectSteadyState()
}

func TestRotationOnRequest(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	pod, before, template := w.pod("shop-db-0").UID, w.credentials("shop-db-auth"), w.deployment("shop-web").Spec.Template
	w.editOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
	w.Eventually(func() string { return string(w.credentials("shop-db-auth").Data["password"]) }, databaseTimeout).
		ShouldNot(Equal(string(before.Data["password"])))
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
	w.Expect(string(w.credentials("shop-db-auth").Data["root-password"])).NotTo(Equal(string(before.Data["root-password"])))
	w.Expect(w.deployment("shop-web").Spec.Template).NotTo(Equal(template), "consumers are rolled out")
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod), "the server is not restarted")
	w.expectSteadyState()
	w.Expect(w.checkPasswords()).To(Succeed())
}

func TestRotationFromUserSecret(t *testing.T) {
	w := newStory(t)
	password := func(p string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: w.objectMeta("mine"), StringData: map[string]string{"db": p}}
	}
	w.Expect(w.Create(w.Context(), password("it's \"mine\"; \\ and $(nobody)'s else"))).To(Succeed())
	w.create(`
components:
- name: db
  database: {version: "10.11", storage: {size: 1Gi}, passwordSecretRef: {name: mine, key: db}}
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1"}
`)
	w.waitReady()
	w.Expect(string(w.credentials("shop-db-binding").Data["password"])).To(Equal("it's \"mine\"; \\ and $(nobody)'s else"))
	w.Expect(w.Update(w.Context(), password("another one"))).To(Succeed())
	w.Eventually(func() string { return string(w.credentials("shop-db-binding").Data["password"]) }, databaseTimeout).Should(Equal("another one"))
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())

	w.Expect(w.Delete(w.Context(), password(""))).To(Succeed())
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring(`has no key "db"; the current password stays valid`))
	w.Expect(w.checkPasswords()).To(Succeed())
	w.Expect(w.Create(w.Context(), password("another one"))).To(Succeed())
	w.waitReady()
}

// TestRotationWaitsForConsumers checks that the server accepts both passwords as long as a consumer only has the old
// one.
func TestRotationWaitsForConsumers(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.EditOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
		s.Components[1].Service.Image = "shop/web:never"
	})
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).Should(HaveLen(2))
	w.Eventually(func() string { return string(w.credentials("shop-db-binding").Data["password"]) }, databaseTimeout).ShouldNot(Equal(old))
	w.Consistently(func() []string { return w.accountHashes("db") }, "2s").Should(ContainElement(mariadb.Hash(old)))
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// TestRotationWaitsForReplacedConsumer checks that a replaced component keeps its valid password until its replacement
// is ready.
func TestRotationWaitsForReplacedConsumer(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.EditOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
		s.Components[1].Name, s.Components[1].RenamedFrom, s.Components[1].Service.Image = "site", "web", "shop/site:never"
	})
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).Should(HaveLen(2))
	w.Eventually(func() any { return w.deployment("shop-site") }, databaseTimeout).ShouldNot(BeNil())
	w.Consistently(func() []string { return w.accountHashes("db") }, "3s").Should(ContainElement(mariadb.Hash(old)))
	w.Eventually(func() appsapi.ComponentStatus { return w.stack().Status.Components[0] }, databaseTimeout).
		Should(And(HaveField("Health", "Healthy"), HaveField("Reason", appsapi.ReasonRotating)))
	w.editComponent("site", func(c *appsapi.Component) { c.Service.Image = "shop/site:1" })
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

func TestRootPasswordChangedInServer(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	pod := w.pod("shop-db-0")
	w.Databases.Volume(w.Context(), pod).SetHashes("root", mariadb.Hash("by hand"))
	w.editOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" }) // triggers a check
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("is valid for root: the password was changed in the server"),
		ContainSubstring("kubectl annotate secret shop-db-auth -n "+w.NS)))
	w.Consistently(func() any { return w.pod("shop-db-0").UID }, "1s").Should(Equal(pod.UID), "no restart")
	secret := w.credentials("shop-db-auth")
	secret.Annotations[appsapi.DefaultKeys.ResetCredentials] = "now"
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
	w.Expect(w.pod("shop-db-0").UID).NotTo(Equal(pod.UID))
}

func TestDatabaseDowngradeIsRejected(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").Should(HaveKey(appsapi.DefaultKeys.ServerVersion))
	pod := w.pod("shop-db-0").UID
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "10.11" })
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring(
		"PersistentVolumeClaim data-shop-db-0 was written by MariaDB 11.8.0, but image mariadb:10.11 is from the older series 10.11. A downgrade can damage the data"))
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod))
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "12.3" })
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").
		Should(HaveKeyWithValue(appsapi.DefaultKeys.ServerVersion, "12.3.0"))
}

func TestDatabaseVersionMismatch(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- name: db
  database: {version: "11.4", image: "shop/mariadb:11.8", storage: {size: 1Gi}}
`)
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("Database shop-db declares version 11.4, but its server reports 11.8.0"))
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "11.8" })
	w.waitReady()
}

func TestRootPasswordRemovedFromSecret(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	secret := w.credentials("shop-db-auth")
	password := secret.Data["root-password"]
	delete(secret.Data, "root-password")
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("CredentialsLost"), ContainSubstring(`has no key "root-password"`)))
	w.Expect(w.credentials("shop-db-auth").Data).NotTo(HaveKey("root-password"), "a new one would not be valid")
	secret = w.credentials("shop-db-auth")
	secret.Data["root-password"] = password
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.waitReady()
	w.Expect(w.checkPasswords()).To(Succeed())
}

func TestBindingNameConflict(t *testing.T) {
	w := newStory(t)
	w.Expect(w.Create(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-binding"), StringData: map[string]string{"mine": "yes"}})).To(Succeed())
	w.create(databaseSpec)
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("BindingConflict"), ContainSubstring("exists and is not managed by Holdfast (type Opaque)")))
	w.Expect(w.credentials("shop-db-binding").Data).To(HaveKey("mine"))
	w.Expect(w.Delete(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-binding")})).To(Succeed())
	w.waitReady()
}

func TestUnresponsiveDatabaseIsReported(t *testing.T) {
	w := newStory(t)
	w.create(`
components:
- name: db
  database: {image: "shop/mariadb:hangs", version: "11.8", storage: {size: 1Gi}}
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1"}
`)
	w.Eventually(w.condition("Ready"), "90s").Should(And(ContainSubstring("DatabaseUnresponsive"), ContainSubstring("accepts connections but does not respond")))
	w.Expect(w.deployment("shop-web")).To(BeNil(), "no dependent is created")
}

func TestSuspendedDatabaseIsNotProbed(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	before := w.accountHashes("db")
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Suspend = true
		s.EditOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
	})
	w.Eventually(func() int64 { return w.stack().Status.ObservedGeneration }, databaseTimeout).Should(Equal(w.stack().Generation))
	w.Consistently(func() []string { return w.accountHashes("db") }, "2s").Should(Equal(before))
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).ShouldNot(Equal(before))
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// TestDatabaseSchemaMismatch renames a component and declares another schema than the data has, which is rejected:
// clients would find an empty schema.
func TestDatabaseSchemaMismatch(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").Should(HaveKeyWithValue(appsapi.DefaultKeys.Schema, "db"))
	volume := w.Databases.Volume(w.Context(), w.pod("shop-db-0"))
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom, s.Components[0].Database.Database = "store", "db", "store"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "store", EnvPrefix: "DB"}
	})
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("DataConflict"), ContainSubstring(`contains schema "db", but database is "store"`)))
	w.Expect(volume.Rows("store")).To(Equal(-1), "no empty schema is created")
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom, s.Components[0].Database.Database = "shelf", "db", ""
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "shelf", EnvPrefix: "DB"}
	})
	w.waitReady()
	w.Expect(string(w.credentials("shop-db-binding").Data["database"])).To(Equal("db"), "the binding has the existing schema")
}
