package appstack_test

import (
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func init() {
	stories["database: that of another application is left alone"] = databaseOfAnotherApplication
	stories["database: a job of the release before does not hold a password up"] = finishedJobDoesNotBlockRotation
	stories["database: a server that never got ready may have written"] = interruptedUpgrade
	stories["database: a newer server was started behind our back"] = manualUpgrade
	stories["database: who reads the binding without being bound is waited for"] = consumerOfBindingSecret
	stories["database: the component leaves between two sets"] = databaseRemovedDuringRecreate
	behaviors["11.8-never"], behaviors["11.8-missing"] = podsim.NeverReady(), podsim.ImageNotFound()
}

// databaseOfAnotherApplication: two objects of one name, and one database.
func databaseOfAnotherApplication(w *world) {
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
	w.create(strings.Replace(databaseSpec, "storage:", "rotation: {requestedAt: now}, database: other, storage:", 1))
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(HavePrefix("False/"))
	w.Consistently(func() any { return w.credentials("shop-db-auth").Data }, "3s").Should(Equal(before))
	w.Expect(w.credentials("shop-db-binding").Data).To(Equal(bindingBefore))
	w.WaitReady(cm)
}

// finishedJobDoesNotBlockRotation: what has run for an earlier spec is remembered, and its pods with it. They use nothing any more.
func finishedJobDoesNotBlockRotation(w *world) {
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
	w.editComponent("db", func(c *appsapi.Component) { c.Database.Rotation.RequestedAt = "now" })
	w.Eventually(func() []string { return w.accountHashes("db") }, databaseTimeout).Should(And(HaveLen(1), Not(Equal(before))))
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// interruptedUpgrade: whoever goes back while a newer server works on the files would have an older one open them.
func interruptedUpgrade(w *world) {
	w.create(strings.Replace(databaseSpec, "11.8", "10.11", 1))
	w.waitReady()
	setImageAndVersion := func(tag, version string) {
		w.editComponent("db", func(c *appsapi.Component) { c.Database.Image, c.Database.Version = "shop/mariadb:"+tag, version })
	}
	recordedVersion := func() string { return w.claim("data-shop-db-0").Annotations[appsapi.AnnotationServerVersion] }
	setImageAndVersion("11.8-missing", "11.8")
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("11.8-missing"))
	setImageAndVersion("10.11", "10.11")
	w.waitReady() // what never came has not written anything
	w.Expect(recordedVersion()).To(Equal("10.11.0"))

	setImageAndVersion("11.8-never", "11.8")
	w.Eventually(recordedVersion, databaseTimeout).Should(Equal("11.8"))
	setImageAndVersion("10.11", "10.11")
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("was written by MariaDB 11.8.0, and image shop/mariadb:10.11 is of the series 10.11"))
	w.Expect(w.pod("shop-db-0").Spec.Containers[0].Image).To(Equal("shop/mariadb:11.8-never"))
	setImageAndVersion("11.8", "11.8")
	w.waitReady()
}

// manualUpgrade: what counts is who was let near the files, and not who asked for it.
func manualUpgrade(w *world) {
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
	w.Eventually(w.condition("Ready"), databaseTimeout).Should(ContainSubstring("was written by MariaDB 11.8.0, and image mariadb:10.11 is of the series 10.11"))
	w.Expect(w.pod("shop-db-0").Spec.Containers[0].Image).To(Equal("shop/mariadb:11.8-never"))
}

// consumerOfBindingSecret: a component that has the Secret in its environment knows the password as well as one that is bound.
func consumerOfBindingSecret(w *world) {
	w.create(strings.Replace(databaseSpec, `bindings: [{component: db}]
  service: {image: "shop/web:1",`, `dependsOn: [db]
  service: {image: "shop/web:1", envFrom: [{secretRef: {name: shop-db-binding}}],`, 1))
	w.waitReady()
	old := string(w.credentials("shop-db-auth").Data["password"])
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Database.Rotation.RequestedAt = "now"
		s.Components[1].Service.Image = "shop/web:never"
	})
	w.Eventually(func() string { return string(w.credentials("shop-db-binding").Data["password"]) }, databaseTimeout).ShouldNot(Equal(old))
	w.Consistently(func() []string { return w.accountHashes("db") }, "3s").Should(ContainElement(mariadb.Hash(old)))
	w.Eventually(func() string { return w.stack().Status.Components[0].Message }, databaseTimeout).Should(ContainSubstring(`as component "web" may be`))
	w.editComponent("web", func(c *appsapi.Component) { c.Service.Image = "shop/web:2" })
	w.waitReady()
	w.Eventually(w.checkPasswords, databaseTimeout).Should(Succeed())
}

// databaseRemovedDuringRecreate: with the pods goes what told how to get in.
func databaseRemovedDuringRecreate(w *world) {
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
