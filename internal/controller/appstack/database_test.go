package appstack_test

import (
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

func init() {
	stories["database: comes up, is bound, settles"] = databaseBecomesReady
	stories["database: passwords are replaced on request"] = rotationOnRequest
	stories["database: a password of one's own is changed"] = rotationFromUserSecret
	stories["database: those who use it cannot be rolled"] = rotationWaitsForConsumers
	stories["database: who has left the spec still knows the old password"] = rotationWaitsForReplacedConsumer
	stories["database: nobody knows the password of root"] = rootPasswordChangedInServer
	stories["database: an older server is not let near"] = downgradeIsRejected
	stories["database: a version that it is not"] = versionMismatch
	stories["database: the root password is taken out of its Secret"] = rootPasswordRemovedFromSecret
	stories["database: the name of the binding is taken"] = bindingNameConflict
	stories["database: hangs, and says so"] = unresponsiveDatabase
	stories["database: with hands off nothing is asked of it"] = suspendedDatabase
	stories["database: a schema that its data does not have"] = schemaMismatch
}

const databaseSpec = `
components:
- name: db
  database: {version: "11.8", storage: {size: 1Gi}}
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1", replicas: 2}
`

// accountHashes are those of an account, in the server of the database.
func (w *world) accountHashes(user string) []string {
	w.Helper()
	pod := w.pod("shop-db-0")
	w.Expect(pod).NotTo(BeNil())
	volume := w.Databases.Volume(w.Context(), pod)
	w.Expect(volume).NotTo(BeNil())
	return volume.Hashes(user)
}

// checkPasswords says that each account has exactly the password that is stored, and that it is the one that
// those who use the database are told.
func (w *world) checkPasswords() error {
	stored, binding := w.credentials("shop-db-auth"), w.credentials("shop-db-binding")
	if stored == nil || binding == nil {
		return fmt.Errorf("the Secrets are %v and %v", stored, binding)
	}
	for key, user := range map[string]string{"root-password": "root", "password": "db"} {
		if stored.Data["pending-"+key] != nil {
			return fmt.Errorf("%s is on its way to another one", key)
		}
		if got, want := w.accountHashes(user), []string{mariadb.Hash(string(stored.Data[key]))}; !slices.Equal(got, want) {
			return fmt.Errorf("%s has %v in the server, and stored is %v", user, got, want)
		}
	}
	if string(binding.Data["password"]) != string(stored.Data["password"]) {
		return fmt.Errorf("the binding has another password")
	}
	return nil
}

// databaseTimeout is how long to wait for something that takes a dozen visits, one after the other, beside all
// other stories.
const databaseTimeout = "180s"

func databaseBecomesReady(w *world) {
	calls := w.OperatorRequests(func() {
		w.create(databaseSpec)
		w.waitReady()
	})
	w.Expect(calls.Of("pods").Reads()).To(BeEmpty(), "no password is replaced, and pods are asked for at the API server, which takes its time")
	w.Expect(w.checkPasswords()).To(Succeed())
	binding := w.credentials("shop-db-binding")
	w.Expect(binding.Type).To(Equal(corev1.SecretType("servicebinding.io/mysql")))
	w.Expect(binding.OwnerReferences).To(ConsistOf(HaveField("UID", w.statefulSet("shop-db").UID)))
	status := w.stack().Status
	w.Expect(status.Binding).To(Equal(&appsapi.SecretReference{Name: "shop-db-binding"}))
	w.Expect(status.Components[0].Type).To(Equal(appsapi.ComponentDatabase))
	w.Expect(w.claim("data-shop-db-0").Annotations).To(HaveKeyWithValue(appsapi.AnnotationServerVersion, "11.8.0"))
	w.expectSteadyState()
}

func rotationOnRequest(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	pod, before, template := w.pod("shop-db-0").UID, w.credentials("shop-db-auth"), w.deployment("shop-web").Spec.Template
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Rotation.RequestedAt = "now" })
	w.Eventually(func() string { return string(w.credentials("shop-db-auth").Data["password"]) }, databaseTimeout).
		ShouldNot(Equal(string(before.Data["password"])))
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
	w.Expect(string(w.credentials("shop-db-auth").Data["root-password"])).NotTo(Equal(string(before.Data["root-password"])))
	w.Expect(w.deployment("shop-web").Spec.Template).NotTo(Equal(template), "those who use it have not been rolled")
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod), "the server was restarted")
	w.expectSteadyState()
	w.Expect(w.checkPasswords()).To(Succeed())
}

func rotationFromUserSecret(w *world) {
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
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring(`has nothing under the key "db"; the password stays what it was`))
	w.Expect(w.checkPasswords()).To(Succeed())
	w.Expect(w.Create(w.Context(), password("another one"))).To(Succeed())
	w.waitReady()
}

// rotationWaitsForConsumers: as long as somebody knows only the old password, the server takes both.
func rotationWaitsForConsumers(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Database.Rotation.RequestedAt = "now"
		s.Components[1].Service.Image = "shop/web:never"
	})
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).Should(HaveLen(2))
	w.Eventually(func() string { return string(w.credentials("shop-db-binding").Data["password"]) }, databaseTimeout).ShouldNot(Equal(old))
	w.Consistently(func() []string { return w.accountHashes("db") }, "2s").Should(ContainElement(mariadb.Hash(old)))
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// rotationWaitsForReplacedConsumer: what a component took the place of serves until that is ready, with the password that it was told.
func rotationWaitsForReplacedConsumer(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Database.Rotation.RequestedAt = "now"
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

func rootPasswordChangedInServer(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	pod := w.pod("shop-db-0")
	w.Databases.Volume(w.Context(), pod).SetHashes("root", mariadb.Hash("by hand"))
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Rotation.RequestedAt = "now" }) // somebody looks
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("opens the database as root: somebody has changed it in the server"),
		ContainSubstring("kubectl annotate secret shop-db-auth -n "+w.NS)))
	w.Consistently(func() any { return w.pod("shop-db-0").UID }, "1s").Should(Equal(pod.UID), "a restart helps nobody")
	secret := w.credentials("shop-db-auth")
	secret.Annotations[appsapi.AnnotationResetCredentials] = "now"
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
	w.Expect(w.pod("shop-db-0").UID).NotTo(Equal(pod.UID))
}

func downgradeIsRejected(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").Should(HaveKey(appsapi.AnnotationServerVersion))
	pod := w.pod("shop-db-0").UID
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "10.11" })
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring(
		"PersistentVolumeClaim data-shop-db-0 was written by MariaDB 11.8.0, and image mariadb:10.11 is of the series 10.11, which cannot be trusted with it"))
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod))
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "12.3" })
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").
		Should(HaveKeyWithValue(appsapi.AnnotationServerVersion, "12.3.0"))
}

func versionMismatch(w *world) {
	w.create(`
components:
- name: db
  database: {version: "11.4", image: "shop/mariadb:11.8", storage: {size: 1Gi}}
`)
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("Database shop-db is to be version 11.4, and its server says that it is 11.8.0"))
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Version = "11.8" })
	w.waitReady()
}

func rootPasswordRemovedFromSecret(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	secret := w.credentials("shop-db-auth")
	password := secret.Data["root-password"]
	delete(secret.Data, "root-password")
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("CredentialsLost"), ContainSubstring(`has nothing under the key "root-password"`)))
	w.Expect(w.credentials("shop-db-auth").Data).NotTo(HaveKey("root-password"), "a new one opens nothing")
	secret = w.credentials("shop-db-auth")
	secret.Data["root-password"] = password
	w.Expect(w.Update(w.Context(), secret)).To(Succeed())
	w.waitReady()
	w.Expect(w.checkPasswords()).To(Succeed())
}

func bindingNameConflict(w *world) {
	w.Expect(w.Create(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-binding"), StringData: map[string]string{"mine": "yes"}})).To(Succeed())
	w.create(databaseSpec)
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("BindingConflict"), ContainSubstring("exists and is not Holdfast's (type Opaque)")))
	w.Expect(w.credentials("shop-db-binding").Data).To(HaveKey("mine"))
	w.Expect(w.Delete(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-binding")})).To(Succeed())
	w.waitReady()
}

func unresponsiveDatabase(w *world) {
	w.create(`
components:
- name: db
  database: {image: "shop/mariadb:hangs", version: "11.8", storage: {size: 1Gi}}
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1"}
`)
	w.Eventually(w.condition("Ready"), "90s").Should(And(ContainSubstring("DatabaseUnresponsive"), ContainSubstring("accepts connections and does not answer")))
	w.Expect(w.deployment("shop-web")).To(BeNil(), "nobody gets in")
}

func suspendedDatabase(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	before := w.accountHashes("db")
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Suspend, s.Components[0].Database.Rotation.RequestedAt = true, "now"
	})
	w.Eventually(func() int64 { return w.stack().Status.ObservedGeneration }, databaseTimeout).Should(Equal(w.stack().Generation))
	w.Consistently(func() []string { return w.accountHashes("db") }, "2s").Should(Equal(before))
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).ShouldNot(Equal(before))
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// schemaMismatch: a rename may say a name for the schema; with another one than the data has, everybody would
// find nothing.
func schemaMismatch(w *world) {
	w.create(databaseSpec)
	w.waitReady()
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Annotations }, "30s").Should(HaveKeyWithValue(appsapi.AnnotationSchema, "db"))
	volume := w.Databases.Volume(w.Context(), w.pod("shop-db-0"))
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom, s.Components[0].Database.Database = "store", "db", "store"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "store", EnvPrefix: "DB"}
	})
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(And(ContainSubstring("DataConflict"), ContainSubstring(`has the schema "db", and database says "store"`)))
	w.Expect(volume.Rows("store")).To(Equal(-1), "an empty schema was made")
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom, s.Components[0].Database.Database = "shelf", "db", ""
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "shelf", EnvPrefix: "DB"}
	})
	w.waitReady()
	w.Expect(string(w.credentials("shop-db-binding").Data["database"])).To(Equal("db"), "who is bound finds what there was")
}
