package appstack_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
)

// TestDatabaseOfAnotherApplicationIsLeftAlone creates an AppStack whose database has the name of a CloudManager's
// database.
func TestDatabaseOfAnotherApplicationIsLeftAlone(t *testing.T) {
	w := newStory(t)
	cm := &appsapi.CloudManager{ObjectMeta: w.objectMeta("shop")}
	w.decode(`
spec:
  front: {deployment: {image: "shop/front:1"}}
  identity: {deployment: {image: "shop/identity:1"}}
  db: {statefulSet: {image: "mariadb:11.8", name: shop-db, storage: {size: 1Gi}}}
`, cm)
	w.Expect(w.Create(w.Context(), cm)).To(Succeed())
	w.WaitReady(cm)
	before, bindingBefore := w.credentials("shop-db-auth").Data, w.credentials("shop-db-binding").Data
	w.create("operations: [{component: db, rotationRequestedAt: now}]" + strings.Replace(databaseSpec, "storage:", "database: other, storage:", 1))
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(HavePrefix("False/"))
	w.Consistently(func() any { return w.credentials("shop-db-auth").Data }, "3s").Should(Equal(before))
	w.Expect(w.credentials("shop-db-binding").Data).To(Equal(bindingBefore))
	w.WaitReady(cm)
}

// TestFinishedJobDoesNotBlockRotation checks that completed jobs of earlier revisions do not count as users of a
// password.
func TestFinishedJobDoesNotBlockRotation(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec + `
- name: migrate
  bindings: [{component: db}]
  job: {image: "shop/migrate:done"}
`)
	w.waitReady()
	w.editComponent("migrate", func(c *appsapi.Component) { c.Job.Args = []string{"again"} })
	w.Eventually(func() int { return len(w.jobs("migrate")) }, databaseTimeout).Should(Equal(2))
	w.waitReady()
	before := w.accountHashes("db")
	w.editOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).Should(And(HaveLen(1), Not(Equal(before))))
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// TestInterruptedDatabaseUpgrade reverts an upgrade while the newer server runs: an older server must not use the files
// anymore.
func TestInterruptedDatabaseUpgrade(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(databaseSpec, "11.8", "10.11", 1))
	w.waitReady()
	setImageAndVersion := func(tag, version string) {
		w.editComponent("db", func(c *appsapi.Component) { c.Database.Image, c.Database.Version = "shop/mariadb:"+tag, version })
	}
	recordedVersion := func() string { return w.claim("data-shop-db-0").Annotations[appsapi.DefaultKeys.ServerVersion] }
	setImageAndVersion("11.8-missing", "11.8")
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("11.8-missing"))
	setImageAndVersion("10.11", "10.11")
	w.waitReady() // a server that never started has not written data
	w.Expect(recordedVersion()).To(Equal("10.11.0"))

	setImageAndVersion("11.8-never", "11.8")
	w.Eventually(recordedVersion, databaseTimeout).Should(Equal("11.8"))
	setImageAndVersion("10.11", "10.11")
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("was written by MariaDB 11.8.0, but image shop/mariadb:10.11 is from the older series 10.11"))
	w.Expect(w.pod("shop-db-0").Spec.Containers[0].Image).To(Equal("shop/mariadb:11.8-never"))
	setImageAndVersion("11.8", "11.8")
	w.waitReady()
}

// TestManualDatabaseUpgrade checks that the recorded version is that of the last server that ran, also after a manual
// change.
func TestManualDatabaseUpgrade(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(databaseSpec, "11.8", "10.11", 1))
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(HavePrefix("True/Suspended: "))
	set := w.statefulSet("shop-db")
	before := set.DeepCopy()
	set.Spec.Template.Spec.Containers[0].Image = "shop/mariadb:11.8-never"
	w.Expect(w.Patch(w.Context(), set, client.MergeFrom(before))).To(Succeed())
	w.Eventually(func() []corev1.ContainerStatus {
		if p := w.pod("shop-db-0"); p != nil && p.Spec.Containers[0].Image == "shop/mariadb:11.8-never" {
			return p.Status.ContainerStatuses
		}
		return nil
	}, databaseTimeout).Should(ContainElement(HaveField("State.Running", Not(BeNil()))))
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("was written by MariaDB 11.8.0, but image mariadb:10.11 is from the older series 10.11"))
	w.Expect(w.pod("shop-db-0").Spec.Containers[0].Image).To(Equal("shop/mariadb:11.8-never"))
}

// TestRotationWaitsForUnboundConsumer checks that a component that uses the binding Secret in its environment counts as
// a consumer.
func TestRotationWaitsForUnboundConsumer(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(databaseSpec, `bindings: [{component: db}]
  service: {image: "shop/web:1",`, `dependsOn: [db]
  service: {image: "shop/web:1", envFrom: [{secretRef: {name: shop-db-binding}}],`, 1))
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.EditOperations("db", func(o *appsapi.ComponentOperations) { o.RotationRequestedAt = "now" })
		s.Components[1].Service.Image = "shop/web:never"
	})
	w.Eventually(func() string { return string(w.credentials("shop-db-binding").Data["password"]) }, databaseTimeout).ShouldNot(Equal(old))
	w.Consistently(func() []string { return w.accountHashes("db") }, "3s").Should(ContainElement(mariadb.Hash(old)))
	w.Eventually(func() string { return w.stack().Status.Components[0].Message }, databaseTimeout).Should(ContainSubstring(`until component "web" has restarted`))
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// TestDatabaseRemovedDuringRecreate checks that the binding is deleted with the pods.
func TestDatabaseRemovedDuringRecreate(t *testing.T) {
	w := newStory(t)
	w.create(databaseSpec)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(HavePrefix("True/Suspended: "))
	w.Expect(w.Delete(w.Context(), w.statefulSet("shop-db"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() any { return w.statefulSet("shop-db") }, "30s").Should(BeNil())
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Suspend, s.Components = false, s.Components[1:]
		s.Components[0].Bindings = nil
	})
	w.Eventually(func() *corev1.Pod { return w.pod("shop-db-0") }, databaseTimeout).Should(BeNil())
	w.Eventually(func() *corev1.Secret { return w.credentials("shop-db-binding") }, databaseTimeout).Should(BeNil())
	w.Expect(w.credentials("shop-db-auth")).NotTo(BeNil())
}
