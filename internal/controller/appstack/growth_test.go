package appstack_test

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

func init() {
	stories["growth: volumes grow while their pods run"] = volumesGrow
	stories["growth: as many pods as somebody else wants"] = growsAsManyPods
	stories["growth: a volume does not shrink"] = noShrinking
	stories["growth: a class that cannot grow"] = fixedClass
	stories["growth: too much, then less"] = tooMuch
	stories["growth: another class and another volume"] = otherStorage
	stories["growth: a claim without a volume can be made anew"] = wrongClass
	stories["growth: a set that somebody took away comes back around its pods"] = setTakenAway
	for _, policy := range []appsapi.DeletionPolicy{appsapi.DeletionRetain, appsapi.DeletionDelete} {
		stories["growth: the component leaves between two sets, "+string(policy)] = func(w *world) { leavesBetween(w, policy) }
		stories["growth: the application goes between two sets, "+string(policy)] = func(w *world) { goesBetween(w, policy) }
	}
}

// ofClass is a database of two pods, of a class of storage.
func ofClass(class string) string {
	return fmt.Sprintf("components:\n- name: db\n  stateful: {image: shop/db:1, replicas: 2, storage: [{name: data, mountPath: /data, size: 1Gi, className: %s}]}\n", class)
}

func (w *world) resize(size string) {
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].Size = resource.MustParse(size) })
}

// sizes are what the claims have, and what those of later pods would ask for.
func (w *world) sizes() string {
	var out []string
	for _, name := range []string{"data-shop-db-0", "data-shop-db-1"} {
		claim := w.claim(name)
		if claim == nil {
			return "no claim " + name
		}
		out = append(out, claim.Status.Capacity.Storage().String())
	}
	set := w.set("shop-db")
	if set == nil {
		return "no set"
	}
	return strings.Join(append(out, set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()), " ")
}

// living are the UIDs of pods and claims: growing replaces neither.
func (w *world) living() map[string]types.UID {
	out := map[string]types.UID{}
	for _, i := range []string{"0", "1"} {
		out["pod "+i], out["claim "+i] = w.pod("shop-db-"+i).UID, w.claim("data-shop-db-"+i).UID
	}
	return out
}

func volumesGrow(w *world) {
	w.create(ofClass(volsim.Standard))
	w.becomesReady()
	before := w.living()
	w.FallsSilent("shop")
	calls := w.Calls(func() {
		w.resize("2Gi")
		w.Eventually(w.sizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
		w.becomesReady()
	})
	w.Expect(w.living()).To(Equal(before))
	w.Expect(writesTo(calls, "persistentvolumeclaims")).To(Equal("patch patch"), "%s", calls.Count())
	w.Expect(writesTo(calls, "statefulsets")).To(Equal("delete patch"), "%s", calls.Count())

	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Replicas = new(int32(3)) })
	w.becomesReady()
	w.Expect(w.claim("data-shop-db-2").Status.Capacity.Storage().String()).To(Equal("2Gi"))
	w.Settles(w.stack(), w.set("shop-db"), w.claim("data-shop-db-2"))
}

// writesTo are the verbs of the accepted writes to a resource.
func writesTo(calls audit.Events, resource string) string {
	var verbs []string
	for _, e := range calls {
		if e.ObjectRef.Resource == resource && e.ResponseStatus.Code < 300 && e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" {
			verbs = append(verbs, e.Verb)
		}
	}
	return strings.Join(verbs, " ")
}

// growsAsManyPods grows a component that leaves the number of its pods to others.
func growsAsManyPods(w *world) {
	w.create(strings.Replace(ofClass(volsim.Standard), "replicas: 2, ", "", 1))
	w.becomesReady()
	w.Expect(w.Patch(w.Context(), w.set("shop-db"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`)))).To(Succeed())
	w.Eventually(func() any { return w.pod("shop-db-1") }, "30s").ShouldNot(BeNil())
	w.becomesReady()
	before := w.living()
	w.resize("2Gi")
	w.Eventually(w.sizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
	w.becomesReady()
	w.Expect(*w.set("shop-db").Spec.Replicas).To(BeEquivalentTo(2))
	w.Expect(w.living()).To(Equal(before))
}

func (w *world) storageRefused(texts ...string) {
	w.Helper()
	for _, text := range texts {
		w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/StorageRefused: "), ContainSubstring(text)))
	}
	w.Expect(w.condition("Stalled")()).To(HavePrefix("True/StorageRefused"))
}

func noShrinking(w *world) {
	w.create(strings.Replace(ofClass(volsim.Standard), "1Gi", "2Gi", 1))
	w.becomesReady()
	before, set := w.living(), w.set("shop-db").UID
	w.resize("1Gi")
	w.storageRefused("data-shop-db-0 has 2Gi, and a volume cannot shrink to 1Gi", `Set the size of storage "data" back to 2Gi`)
	w.Expect(w.living()).To(Equal(before))
	w.Expect(w.set("shop-db").UID).To(Equal(set))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Image = "shop/db:2" })
	w.Eventually(func() *corev1.Pod { return w.pod("shop-db-0") }, "30s").Should(
		And(Not(BeNil()), HaveField("Spec.Containers", ContainElement(HaveField("Image", "shop/db:2")))), "everything else goes on")
	w.resize("2Gi")
	w.becomesReady()
}

func fixedClass(w *world) {
	w.create(ofClass(volsim.Fixed))
	w.becomesReady()
	set := w.set("shop-db").UID
	w.resize("2Gi")
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/StorageRefused: "), ContainSubstring("storageclass that provisions the pvc must support resize")))
	w.Expect(w.set("shop-db").UID).To(Equal(set), "nothing is made anew for a growth that is refused")
	w.resize("1Gi")
	w.becomesReady()
}

func tooMuch(w *world) {
	w.create(ofClass(volsim.Full))
	w.becomesReady()
	before := w.living()
	w.resize("8Gi")
	w.storageRefused("The storage cannot make PersistentVolumeClaim", "as large as 8Gi", "more than 1Gi")
	w.resize("1Gi")
	w.storageRefused("has 1Gi and asks for 8Gi", "to more than 1Gi")
	w.resize("2Gi")
	w.Eventually(w.sizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
	w.becomesReady()
	w.Expect(w.living()).To(Equal(before))
}

func otherStorage(w *world) {
	w.create(ofClass(volsim.Standard))
	w.becomesReady()
	before, set := w.living(), w.set("shop-db").UID
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = new(volsim.Full) })
	w.storageRefused(`was made by StorageClass "standard" and cannot move to "full"`)
	w.editComponent("db", func(c *appsapi.Component) {
		c.Stateful.Storage[0].ClassName = new(volsim.Standard)
		c.Stateful.Storage[0].AccessMode = corev1.ReadWriteOncePod
	})
	w.storageRefused("was made with the access mode ReadWriteOnce")
	w.editComponent("db", func(c *appsapi.Component) {
		c.Stateful.Storage[0].AccessMode = ""
		c.Stateful.Storage = append(c.Stateful.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	})
	w.storageRefused("have the volumes [data], and none can be added or removed")
	w.Expect(w.living()).To(Equal(before))
	w.Expect(w.set("shop-db").UID).To(Equal(set))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage = c.Stateful.Storage[:1] })
	w.becomesReady()
}

func wrongClass(w *world) {
	w.create(ofClass("typo"))
	w.Eventually(func() any { return w.claim("data-shop-db-1") }, "20s").ShouldNot(BeNil())
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = new(volsim.Standard) })
	w.storageRefused("has no volume yet, and asks for other storage", "kubectl delete pvc data-shop-db-")
	for _, name := range []string{"data-shop-db-0", "data-shop-db-1"} {
		w.Expect(w.Delete(w.Context(), stage.Confirmed(w.World, w.claim(name)))).To(Succeed())
		w.Expect(w.Delete(w.Context(), w.pod(strings.TrimPrefix(name, "data-")))).To(Succeed())
	}
	w.becomesReady()
}

func setTakenAway(w *world) {
	w.create(ofClass(volsim.Standard))
	w.becomesReady()
	before := w.living()
	set := w.set("shop-db")
	w.Expect(w.Delete(w.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() bool { s := w.set("shop-db"); return s != nil && s.UID != set.UID }, "30s").Should(BeTrue())
	w.becomesReady()
	w.Expect(w.living()).To(Equal(before))
}

// betweenSets is a stack whose set is gone and whose pods run: between the two writes that make a
// set anew. Nobody makes the next one while hands are off.
func betweenSets(w *world, policy appsapi.DeletionPolicy) treasure {
	w.create("deletionPolicy: " + string(policy) + "\n" + ofClass(volsim.Standard) + "- name: web\n  service: {image: shop/web:1}\n")
	w.becomesReady()
	before := w.treasure()
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix("True/Suspended: "))
	w.Expect(w.Delete(w.Context(), w.set("shop-db"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() any { return w.set("shop-db") }, "30s").Should(BeNil())
	w.Expect(w.pod("shop-db-1").OwnerReferences).To(BeEmpty())
	return before
}

// ended waits until nothing of the set is left but its data, if that is to stay.
func ended(w *world, policy appsapi.DeletionPolicy, before treasure) {
	for _, name := range []string{"shop-db-0", "shop-db-1"} {
		w.Eventually(func() any { return w.pod(name) }, "60s").Should(BeNil(), name)
	}
	if policy == appsapi.DeletionDelete {
		w.Eventually(w.treasure, "60s").Should(Equal(treasure{}))
		return
	}
	w.Expect(w.treasure()).To(Equal(before))
}

func leavesBetween(w *world, policy appsapi.DeletionPolicy) {
	before := betweenSets(w, policy)
	looks := w.looksAt("shop-db-0")
	w.edit(func(s *appsapi.AppStackSpec) { s.Suspend, s.Components = false, s.Components[1:] })
	if policy == appsapi.DeletionDelete {
		w.Eventually(func() any { return w.pod("shop-db-0") }, "60s").Should(BeNil())
		w.Consistently(func() any { return w.claim("data-shop-db-0") }, "1s").ShouldNot(BeNil(), "somebody uses it")
		w.Expect(w.Delete(w.Context(), looks)).To(Succeed())
	}
	ended(w, policy, before)
	if policy == appsapi.DeletionRetain {
		w.Expect(w.pod("looks")).To(HaveField("DeletionTimestamp", BeNil()), "it is not ours to end")
	}
	w.becomesReady()
}

// looksAt is what kubectl debug --copy-to --keep-labels makes: a pod beside another one, with its labels
// and its volume, that no set has made.
func (w *world) looksAt(name string) *corev1.Pod {
	from := w.pod(name)
	looks := &corev1.Pod{ObjectMeta: w.meta("looks"), Spec: *from.Spec.DeepCopy()}
	looks.Labels = maps.Clone(from.Labels)
	w.Expect(w.Create(w.Context(), looks)).To(Succeed())
	return looks
}

func goesBetween(w *world, policy appsapi.DeletionPolicy) {
	before := betweenSets(w, policy)
	w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
	ended(w, policy, before)
	w.Eventually(func() any { return w.stack() }, "60s").Should(BeNil())
}
