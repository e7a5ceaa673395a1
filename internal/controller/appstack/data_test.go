package appstack_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

const statefulSpec = `
components:
- name: db
  stateful:
    image: shop/db:1
    ports: [{port: 3306}]
    storage: [{name: data, mountPath: /data, size: 1Gi}]
    credentials: [{key: password, env: PASSWORD}]
- name: web
  bindings: [{component: db}]
  service: {image: "shop/web:1"}
`

func (w *world) statefulSet(name string) *appsv1.StatefulSet {
	return harness.Find(w.World, &appsv1.StatefulSet{ObjectMeta: w.objectMeta(name)})
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return harness.Find(w.World, &corev1.PersistentVolumeClaim{ObjectMeta: w.objectMeta(name)})
}

func (w *world) credentials(name string) *corev1.Secret {
	return harness.Find(w.World, &corev1.Secret{ObjectMeta: w.objectMeta(name)})
}

func (w *world) pod(name string) *corev1.Pod {
	return harness.Find(w.World, &corev1.Pod{ObjectMeta: w.objectMeta(name)})
}

// retainedData identifies data that must never change.
type retainedData struct {
	claimUID types.UID
	password string
}

// retainedData returns the data of the database, which is called shop-db unless it was created with another name.
func (w *world) retainedData() retainedData {
	var t retainedData
	if c := w.claim("data-shop-db-0"); c != nil {
		t.claimUID = c.UID
	}
	if s := w.credentials("shop-db-auth"); s != nil {
		t.password = string(s.Data["password"])
	}
	return t
}

func TestStatefulComponentBecomesReady(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	set, claim, secret := w.statefulSet("shop-db"), w.claim("data-shop-db-0"), w.credentials("shop-db-auth")
	w.Expect(set.Spec.PodManagementPolicy).To(Equal(appsv1.ParallelPodManagement))
	w.Expect(set.Spec.ServiceName).To(Equal("shop-db-headless"))
	w.Expect(w.service("shop-db-headless").Spec.ClusterIP).To(Equal("None"))
	w.Expect(w.service("shop-db").Spec.Selector).To(Equal(set.Spec.Selector.MatchLabels))
	w.Expect(claim.OwnerReferences).To(BeEmpty())
	w.Expect(secret.OwnerReferences).To(BeEmpty())
	for _, labels := range []map[string]string{claim.Labels, secret.Labels} {
		w.Expect(labels).To(And(
			HaveKeyWithValue(appsapi.DefaultKeys.OwnerUID, string(w.stack().UID)), HaveKeyWithValue(appsapi.DefaultKeys.OwnerKind, "AppStack"),
			HaveKeyWithValue(appsapi.LabelInstance, "shop"), HaveKeyWithValue(appsapi.LabelComponent, "db"),
			HaveKeyWithValue(appsapi.DefaultKeys.Workload, "statefulset-shop-db"), Not(HaveKey(appsapi.DefaultKeys.Retained))))
	}
	w.Expect(secret.Data["password"]).To(MatchRegexp("^[A-Za-z0-9]{32}$"))
	w.Expect(w.pod("shop-db-0").Spec.Containers[0].Env).To(ContainElement(HaveField("Name", "PASSWORD")))
	w.Expect(w.stack().Status.Components[0]).To(And(
		HaveField("Type", appsapi.ComponentStateful), HaveField("ResourceName", "shop-db"), HaveField("Ready", int32(1)), HaveField("Desired", int32(1))))
	w.ExpectSteadyState(w.stack(), set, claim, secret, w.service("shop-db"))
}

func (w *world) removeComponentAndBindings(component string) {
	w.editSpec(func(s *appsapi.AppStackSpec) {
		for i := range s.Components {
			if s.Components[i].Name == component {
				s.Components = append(s.Components[:i], s.Components[i+1:]...)
				break
			}
		}
		for i := range s.Components {
			s.Components[i].Bindings = nil
		}
	})
}

func TestRestoredComponentKeepsData(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before, db := w.retainedData(), w.stack().Spec.Components[0]

	w.removeComponentAndBindings("db")
	w.waitReady()
	w.Eventually(func() *appsv1.StatefulSet { return w.statefulSet("shop-db") }, "20s").Should(BeNil())
	w.Eventually(func() []appsapi.Retained { return w.stack().Status.Retained }, "20s").Should(ConsistOf(
		And(HaveField("Kind", "PersistentVolumeClaim"), HaveField("Name", "data-shop-db-0"), HaveField("Component", "db"),
			HaveField("RemoveCommand", ContainSubstring("kubectl delete persistentvolumeclaim data-shop-db-0 -n "+w.NS))),
		And(HaveField("Kind", "Secret"), HaveField("Name", "shop-db-auth"))))
	w.Eventually(func() map[string]string { return w.claim("data-shop-db-0").Labels }, "20s").Should(HaveKeyWithValue(appsapi.DefaultKeys.Retained, "true"))
	w.Eventually(func() []string { return w.Events("AppStack", "shop") }, "20s").Should(ContainElement("DataRetained"))
	w.Expect(w.retainedData()).To(Equal(before))

	w.editSpec(func(s *appsapi.AppStackSpec) { s.Components = append(s.Components, db) })
	w.waitReady()
	w.Expect(w.retainedData()).To(Equal(before))
	w.Expect(w.claim("data-shop-db-0").Labels).NotTo(HaveKey(appsapi.DefaultKeys.Retained))
	w.Expect(w.credentials("shop-db-auth").Labels).NotTo(HaveKey(appsapi.DefaultKeys.Retained))
	w.Expect(w.stack().Status.Retained).To(BeEmpty())
}

func TestRecreatedStackKeepsData(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before, uid := w.retainedData(), w.stack().UID
	w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
	w.Eventually(w.stack, "60s").Should(BeNil())
	w.Expect(w.statefulSet("shop-db")).To(BeNil())
	w.Expect(w.retainedData()).To(Equal(before))
	w.Expect(w.claim("data-shop-db-0").Labels).To(HaveKeyWithValue(appsapi.DefaultKeys.Retained, "true"))

	w.create(statefulSpec)
	w.waitReady()
	w.Expect(w.stack().UID).NotTo(Equal(uid))
	w.Expect(w.retainedData()).To(Equal(before))
	w.Expect(w.claim("data-shop-db-0").Labels).To(And(Not(HaveKey(appsapi.DefaultKeys.Retained)), HaveKeyWithValue(appsapi.DefaultKeys.OwnerUID, string(w.stack().UID))))
}

func TestDeletionPolicyDeleteRemovesData(t *testing.T) {
	w := newStory(t)
	w.create("deletionPolicy: Delete\n" + statefulSpec)
	w.waitReady()
	w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
	w.Eventually(w.stack, "60s").Should(BeNil())
	w.Expect(w.retainedData()).To(Equal(retainedData{}))
}

func TestRenameKeepsData(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before, pod, set := w.retainedData(), w.pod("shop-db-0").UID, w.statefulSet("shop-db").UID
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name, s.Components[0].RenamedFrom = "database", "db"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "database", EnvPrefix: "DB"}
	})
	w.waitReady()
	w.Eventually(func() *corev1.Service { return w.service("shop-db") }, "30s").Should(BeNil())
	w.Expect(w.retainedData()).To(Equal(before))
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod), "the pod is not replaced")
	w.Expect(w.statefulSet("shop-db").UID).To(Equal(set))
	w.Expect(w.service("shop-database")).NotTo(BeNil())
	w.Expect(w.claim("data-shop-db-0").Labels).To(HaveKeyWithValue(appsapi.LabelComponent, "database"))
	w.Expect(w.stack().Status.Components[0]).To(And(HaveField("Name", "database"), HaveField("ResourceName", "shop-db")))
}

// TestRenameBackKeepsData reverts a rename as git revert does: the first manifest, without renamedFrom, is applied again.
func TestRenameBackKeepsData(t *testing.T) {
	for name, spec := range map[string]string{"stateful": statefulSpec, "database": databaseSpec} {
		t.Run(name, func(t *testing.T) {
			w := newStory(t)
			w.create(spec)
			w.waitReady()
			first := w.stack().Spec.Components
			before, pod := w.retainedData(), w.pod("shop-db-0").UID
			rename := func(to, from string) {
				w.editSpec(func(s *appsapi.AppStackSpec) {
					s.Components[0].Name, s.Components[0].RenamedFrom = to, from
					s.Components[1].Bindings[0] = appsapi.Binding{Component: to, EnvPrefix: "DB"}
				})
				w.waitReady()
				w.Expect(w.claim("data-shop-db-0").Labels).To(HaveKeyWithValue(appsapi.LabelComponent, to))
				w.Expect(w.credentials("shop-db-auth").Labels).To(HaveKeyWithValue(appsapi.LabelComponent, to))
			}
			rename("store", "db")
			w.editSpec(func(s *appsapi.AppStackSpec) { s.Components = first })
			w.waitReady()
			w.Expect(w.claim("data-shop-db-0").Labels).To(HaveKeyWithValue(appsapi.LabelComponent, "db"))
			w.Expect(w.retainedData()).To(Equal(before))
			w.Expect(w.pod("shop-db-0").UID).To(Equal(pod), "the pod is not replaced")
			w.expectSteadyState()

			rename("other", "db") // a correct rename after a revert
			w.Expect(w.pod("shop-db-0").UID).To(Equal(pod))
			w.editSpec(func(s *appsapi.AppStackSpec) { s.Components = first })
			w.waitReady()
			w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
			w.Eventually(w.stack, "60s").Should(BeNil())
			w.create(spec)
			w.waitReady()
			w.Expect(w.retainedData()).To(Equal(before), "an object of the same name finds its data again")
		})
	}
}

func TestUndeclaredRenameIsRejected(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before := w.retainedData()
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Name = "database"
		s.Components[1].Bindings[0] = appsapi.Binding{Component: "database", EnvPrefix: "DB"}
	})
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/DataConflict: "),
		ContainSubstring(`would start with empty volumes, although PersistentVolumeClaim data-shop-db-0 has the data of component "db"`), ContainSubstring("renamedFrom: db")))
	w.Expect(w.condition("Stalled")()).To(HavePrefix("True/DataConflict"))
	w.Expect(w.statefulSet("shop-database")).To(BeNil())
	w.Expect(w.retainedData()).To(Equal(before))

	w.Expect(w.Patch(w.Context(), w.claim("data-shop-db-0"), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"apps.holdfast.dev/released":"true"}}}`)))).To(Succeed())
	w.waitReady()
	w.Expect(w.statefulSet("shop-database")).NotTo(BeNil())
	w.Expect(w.retainedData()).To(Equal(before))
}

func TestLostCredentialIsNotReplaced(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before, pod := w.retainedData(), w.pod("shop-db-0").UID
	w.Expect(w.Delete(w.Context(), w.credentials("shop-db-auth"))).To(MatchError(ContainSubstring(`Secret "shop-db-auth" contains the password for the data of component "db" of application "shop"`)))
	w.Expect(w.Delete(w.Context(), harness.ConfirmDelete(w.World, w.credentials("shop-db-auth")))).To(Succeed())
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix(`False/CredentialsLost: Component "db": `), ContainSubstring("kubectl create secret generic shop-db-auth")))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Image = "shop/db:2" })
	w.Eventually(w.condition("Ready"), "20s").Should(HavePrefix("False/CredentialsLost"))
	w.Expect(w.credentials("shop-db-auth")).To(BeNil())
	w.Expect(w.pod("shop-db-0").UID).To(Equal(pod), "a running pod is not replaced by one that cannot start")

	restored := &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-auth"), StringData: map[string]string{"password": before.password}}
	w.Expect(w.Create(w.Context(), restored)).To(Succeed())
	w.Eventually(w.condition("Ready"), "20s").Should(ContainSubstring("kubectl annotate secret shop-db-auth -n " + w.NS + " apps.holdfast.dev/adopt=true"))
	w.Expect(w.credentials("shop-db-auth").Labels).To(BeEmpty(), "a Secret of a user is not changed")
	w.allowAdoption(restored)
	w.waitReady()
	w.Expect(w.retainedData()).To(Equal(before))
}

func TestForeignClaimIsNameConflict(t *testing.T) {
	w := newStory(t)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: w.objectMeta("data-shop-db-0"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: size}}}
	w.Expect(w.Create(w.Context(), foreign)).To(Succeed())
	w.create(statefulSpec)
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/NameConflict: PersistentVolumeClaim "), ContainSubstring("data-shop-db-0 exists and is not managed by Holdfast")))
	w.Expect(w.statefulSet("shop-db")).To(BeNil())
	w.Expect(w.credentials("shop-db-auth")).To(BeNil())

	w.allowAdoption(foreign)
	w.waitReady()
	claim := w.claim("data-shop-db-0")
	w.Expect(claim.UID).To(Equal(foreign.UID))
	w.Expect(claim.Labels).To(And(HaveKeyWithValue(appsapi.LabelManagedBy, "holdfast"), HaveKeyWithValue(appsapi.LabelComponent, "db"),
		HaveKeyWithValue(appsapi.DefaultKeys.Workload, "statefulset-shop-db"), HaveKeyWithValue(appsapi.DefaultKeys.OwnerUID, string(w.stack().UID))))
	w.Expect(w.condition("Ready")()).To(HavePrefix("True/Reconciled"), "its password is not lost: it was just created")
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].Size = resource.MustParse("2Gi") })
	w.waitReady()
	w.Expect(w.claim("data-shop-db-0").Status.Capacity.Storage().String()).To(Equal("2Gi"))
}

func (w *world) allowAdoption(objects ...client.Object) {
	w.Helper()
	for _, obj := range objects {
		w.Expect(w.Patch(w.Context(), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"apps.holdfast.dev/adopt":"true"}}}`)))).To(Succeed())
	}
}

func TestForeignSecretIsNameConflict(t *testing.T) {
	w := newStory(t)
	foreign := &corev1.Secret{ObjectMeta: w.objectMeta("shop-db-auth"), StringData: map[string]string{"password": "theirs"}}
	w.Expect(w.Create(w.Context(), foreign)).To(Succeed())
	w.create(statefulSpec)
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/DataConflict: "), ContainSubstring("Secret shop-db-auth exists and is not managed by Holdfast")))
	w.allowAdoption(foreign)
	w.waitReady()
	w.Expect(w.retainedData().password).To(Equal("theirs"))
}

func TestDataAdoptedByAnotherStack(t *testing.T) {
	w := newStory(t)
	w.create(statefulSpec)
	w.waitReady()
	before := w.retainedData()
	w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
	w.Eventually(w.stack, "60s").Should(BeNil())
	store := &appsapi.AppStack{ObjectMeta: w.objectMeta("store")}
	w.Expect(yaml.UnmarshalStrict([]byte(strings.Replace(statefulSpec, "- name: db", "- name: db\n  resourceName: shop-db", 1)), &store.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), store)).To(Succeed())
	w.Eventually(func() string { return w.Condition(store, "Ready") }, "20s").Should(And(HavePrefix("False/DataConflict: "), ContainSubstring(`belongs to component "db" of AppStack "shop"`)))
	w.allowAdoption(w.claim("data-shop-db-0"), w.credentials("shop-db-auth"))
	w.WaitReady(store)
	w.Expect(w.retainedData()).To(Equal(before))
}

func TestUserProvidedPassword(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(statefulSpec, "{key: password, env: PASSWORD}", "{key: password, env: PASSWORD, secretRef: {name: mine, key: secret}}", 1))
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/CredentialSourceMissing: Secret "), HaveSuffix(`mine, the source of credential "password", does not exist; create it`)))
	w.Expect(w.statefulSet("shop-db")).To(BeNil())
	w.Expect(w.Create(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("mine"), StringData: map[string]string{"secret": "open"}})).To(Succeed())
	w.waitReady()
	w.Expect(w.retainedData().password).To(Equal("open"))
	w.Expect(w.Delete(w.Context(), &corev1.Secret{ObjectMeta: w.objectMeta("mine")})).To(Succeed())
	w.Consistently(w.condition("Ready"), "1s").Should(HavePrefix("True"), "the credentials have a copy")
}

func TestPodOfBrokenRevisionIsReplaced(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(statefulSpec, "shop/db:1", "shop/db:1\n    replicas: 2", 1))
	w.waitReady()
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Image = "shop/db:missing" })
	w.Eventually(w.condition("Ready"), "30s").Should(HavePrefix("False/ComponentDegraded"))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Image = "shop/db:2" })
	w.waitReady()
	w.Expect(w.pod("shop-db-1").Spec.Containers[0].Image).To(Equal("shop/db:2"))
}
