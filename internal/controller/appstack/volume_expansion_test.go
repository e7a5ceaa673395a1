package appstack_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

func TestComponentRemovedDuringRecreate(t *testing.T) {
	t.Parallel()
	for _, policy := range deletionPolicies {
		t.Run(string(policy), func(t *testing.T) { componentRemovedDuringRecreate(newStory(t), policy) })
	}
}

func TestStackDeletedDuringRecreate(t *testing.T) {
	t.Parallel()
	for _, policy := range deletionPolicies {
		t.Run(string(policy), func(t *testing.T) { stackDeletedDuringRecreate(newStory(t), policy) })
	}
}

var deletionPolicies = []appsapi.DeletionPolicy{appsapi.DeletionRetain, appsapi.DeletionDelete}

// specWithClass returns a database with two pods in a StorageClass.
func specWithClass(class string) string {
	return fmt.Sprintf("components:\n- name: db\n  stateful: {image: shop/db:1, replicas: 2, storage: [{name: data, mountPath: /data, size: 1Gi, className: %s}]}\n", class)
}

func (w *world) setVolumeSize(size string) {
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].Size = resource.MustParse(size) })
}

// claimSizes returns the sizes of the claims and of the claim template.
func (w *world) claimSizes() string {
	var out []string
	for _, name := range []string{"data-shop-db-0", "data-shop-db-1"} {
		claim := w.claim(name)
		if claim == nil {
			return "no claim " + name
		}
		out = append(out, claim.Status.Capacity.Storage().String())
	}
	set := w.statefulSet("shop-db")
	if set == nil {
		return "no StatefulSet"
	}
	return strings.Join(append(out, set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()), " ")
}

// podAndClaimUIDs returns the UIDs of pods and claims: an expansion replaces neither.
func (w *world) podAndClaimUIDs() map[string]types.UID {
	out := map[string]types.UID{}
	for _, i := range []string{"0", "1"} {
		out["pod "+i], out["claim "+i] = w.pod("shop-db-"+i).UID, w.claim("data-shop-db-"+i).UID
	}
	return out
}

func TestVolumesExpandOnline(t *testing.T) {
	w := newStory(t)
	w.create(specWithClass(volsim.Standard))
	w.waitReady()
	before := w.podAndClaimUIDs()
	w.WaitIdle("shop")
	calls := w.OperatorRequests(func() {
		w.setVolumeSize("2Gi")
		w.Eventually(w.claimSizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
		w.waitReady()
	})
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
	w.Expect(acceptedVerbs(calls, "persistentvolumeclaims")).To(Equal("patch patch"), "%s", calls.Count())
	w.Expect(acceptedVerbs(calls, "statefulsets")).To(Equal("delete patch"), "%s", calls.Count())

	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Replicas = new(int32(3)) })
	w.waitReady()
	w.Expect(w.claim("data-shop-db-2").Status.Capacity.Storage().String()).To(Equal("2Gi"))
	w.ExpectSteadyState(w.stack(), w.statefulSet("shop-db"), w.claim("data-shop-db-2"))
}

// acceptedVerbs returns the verbs of the accepted writes to a resource.
func acceptedVerbs(calls audit.Events, resource string) string {
	var verbs []string
	for _, e := range calls {
		if e.ObjectRef.Resource == resource && e.ResponseStatus.Code < 300 && e.Verb != "get" && e.Verb != "list" && e.Verb != "watch" {
			verbs = append(verbs, e.Verb)
		}
	}
	return strings.Join(verbs, " ")
}

// TestExpansionKeepsLiveReplicas expands a component whose replicas are not set in the spec.
func TestExpansionKeepsLiveReplicas(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(specWithClass(volsim.Standard), "replicas: 2, ", "", 1))
	w.waitReady()
	w.Expect(w.Patch(w.Context(), w.statefulSet("shop-db"), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`)))).To(Succeed())
	w.Eventually(func() any { return w.pod("shop-db-1") }, "30s").ShouldNot(BeNil())
	w.waitReady()
	before := w.podAndClaimUIDs()
	w.setVolumeSize("2Gi")
	w.Eventually(w.claimSizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
	w.waitReady()
	w.Expect(*w.statefulSet("shop-db").Spec.Replicas).To(BeEquivalentTo(2))
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
}

func (w *world) expectStorageRejected(texts ...string) {
	w.Helper()
	for _, text := range texts {
		w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/StorageChangeRejected: "), ContainSubstring(text)))
	}
	w.Expect(w.condition("Stalled")()).To(HavePrefix("True/StorageChangeRejected"))
}

func TestShrinkIsRejected(t *testing.T) {
	w := newStory(t)
	w.create(strings.Replace(specWithClass(volsim.Standard), "1Gi", "2Gi", 1))
	w.waitReady()
	before, set := w.podAndClaimUIDs(), w.statefulSet("shop-db").UID
	w.setVolumeSize("1Gi")
	w.expectStorageRejected("data-shop-db-0 has a capacity of 2Gi and cannot shrink to 1Gi", `Set the size of storage "data" back to 2Gi`)
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
	w.Expect(w.statefulSet("shop-db").UID).To(Equal(set))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Image = "shop/db:2" })
	w.Eventually(func() *corev1.Pod { return w.pod("shop-db-0") }, "30s").Should(
		And(Not(BeNil()), HaveField("Spec.Containers", ContainElement(HaveField("Image", "shop/db:2")))), "other changes are applied")
	w.setVolumeSize("2Gi")
	w.waitReady()
}

func TestExpansionNeedsStorageClass(t *testing.T) {
	w := newStory(t)
	w.create(specWithClass(volsim.Fixed))
	w.waitReady()
	set := w.statefulSet("shop-db").UID
	w.setVolumeSize("2Gi")
	w.Eventually(w.condition("Ready"), "20s").Should(And(HavePrefix("False/StorageChangeRejected: "), ContainSubstring("storageclass that provisions the pvc must support resize")))
	w.Expect(w.statefulSet("shop-db").UID).To(Equal(set), "a rejected expansion does not recreate the StatefulSet")
	w.setVolumeSize("1Gi")
	w.waitReady()
}

func TestExpansionBeyondCapacity(t *testing.T) {
	w := newStory(t)
	w.create(specWithClass(volsim.Full))
	w.waitReady()
	before := w.podAndClaimUIDs()
	w.setVolumeSize("8Gi")
	w.expectStorageRejected("The storage backend cannot expand PersistentVolumeClaim", "to 8Gi", "above 1Gi")
	w.setVolumeSize("1Gi")
	w.expectStorageRejected("has a capacity of 1Gi and requests 8Gi", "to more than 1Gi")
	w.setVolumeSize("2Gi")
	w.Eventually(w.claimSizes, "60s").Should(Equal("2Gi 2Gi 2Gi"))
	w.waitReady()
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
}

func TestImmutableStorageFields(t *testing.T) {
	w := newStory(t)
	w.create(specWithClass(volsim.Standard))
	w.waitReady()
	before, set := w.podAndClaimUIDs(), w.statefulSet("shop-db").UID
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = new(volsim.Full) })
	w.expectStorageRejected(`uses StorageClass "standard", which cannot be changed to "full"`)
	w.editComponent("db", func(c *appsapi.Component) {
		c.Stateful.Storage[0].ClassName = new(volsim.Standard)
		c.Stateful.Storage[0].AccessMode = corev1.ReadWriteOncePod
	})
	w.expectStorageRejected("has access mode ReadWriteOnce")
	w.editComponent("db", func(c *appsapi.Component) {
		c.Stateful.Storage[0].AccessMode = ""
		c.Stateful.Storage = append(c.Stateful.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	})
	w.expectStorageRejected("has the volumes [data]; volumes cannot be added or removed")
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
	w.Expect(w.statefulSet("shop-db").UID).To(Equal(set))
	w.editComponent("db", func(c *appsapi.Component) { c.Stateful.Storage = c.Stateful.Storage[:1] })
	w.waitReady()
}

// TestUnboundClaimIsReplaced corrects a StorageClass that does not exist: claims that were never bound have no data.
func TestUnboundClaimIsReplaced(t *testing.T) {
	for name, correct := range map[string]func(*appsapi.Component){
		"another class":     func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = new(volsim.Standard) },
		"the default class": func(c *appsapi.Component) { c.Stateful.Storage[0].ClassName = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newStory(t)
			w.create(specWithClass("typo"))
			names := []string{"data-shop-db-0", "data-shop-db-1"}
			var before []types.UID
			for _, name := range names {
				w.Eventually(func() any { return w.claim(name) }, "20s").ShouldNot(BeNil())
				before = append(before, w.claim(name).UID)
			}
			w.editComponent("db", correct)
			for i, name := range names {
				// The simulated node runs pods without volumes, so their claims are protected until the pods are deleted. A
				// pod that the StatefulSet creates too early protects the claim again.
				w.Eventually(func() bool {
					c := w.claim(name)
					if pod := w.pod(strings.TrimPrefix(name, "data-")); pod != nil && c != nil && c.UID == before[i] && c.DeletionTimestamp != nil {
						_ = w.Delete(w.Context(), pod) // may be gone already
					}
					return c != nil && c.UID != before[i]
				}, "60s", "500ms").Should(BeTrue())
			}
			w.waitReady()
			for i, name := range names {
				w.Expect(w.claim(name).UID).NotTo(Equal(before[i]))
			}
			w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ClaimReplaced"))
			w.expectSteadyState()
		})
	}
}

func TestDeletedStatefulSetIsRecreated(t *testing.T) {
	w := newStory(t)
	w.create(specWithClass(volsim.Standard))
	w.waitReady()
	before := w.podAndClaimUIDs()
	set := w.statefulSet("shop-db")
	w.Expect(w.Delete(w.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() bool { s := w.statefulSet("shop-db"); return s != nil && s.UID != set.UID }, "30s").Should(BeTrue())
	w.waitReady()
	w.Expect(w.podAndClaimUIDs()).To(Equal(before))
}

// deleteStatefulSetWhileSuspended deletes the StatefulSet and keeps its pods, as between the two writes that recreate
// one. While suspended it is not recreated.
func deleteStatefulSetWhileSuspended(w *world, policy appsapi.DeletionPolicy) retainedData {
	w.create("deletionPolicy: " + string(policy) + "\n" + specWithClass(volsim.Standard) + "- name: web\n  service: {image: shop/web:1}\n")
	w.waitReady()
	before := w.retainedData()
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	w.Eventually(w.condition("Ready"), "60s").Should(HavePrefix("True/Suspended: "))
	w.Expect(w.Delete(w.Context(), w.statefulSet("shop-db"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() any { return w.statefulSet("shop-db") }, "30s").Should(BeNil())
	w.Expect(w.pod("shop-db-1").OwnerReferences).To(BeEmpty())
	return before
}

// expectStatefulSetRemoved waits until only the retained data of the StatefulSet is left.
func expectStatefulSetRemoved(w *world, policy appsapi.DeletionPolicy, before retainedData) {
	for _, name := range []string{"shop-db-0", "shop-db-1"} {
		w.Eventually(func() any { return w.pod(name) }, "60s").Should(BeNil(), name)
	}
	if policy == appsapi.DeletionDelete {
		w.Eventually(w.retainedData, "60s").Should(Equal(retainedData{}))
		return
	}
	w.Expect(w.retainedData()).To(Equal(before))
}

func componentRemovedDuringRecreate(w *world, policy appsapi.DeletionPolicy) {
	before := deleteStatefulSetWhileSuspended(w, policy)
	debugPod := w.createDebugPod("shop-db-0")
	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend, s.Components = false, s.Components[1:] })
	if policy == appsapi.DeletionDelete {
		w.Eventually(func() any { return w.pod("shop-db-0") }, "60s").Should(BeNil())
		w.Consistently(func() any { return w.claim("data-shop-db-0") }, "1s").ShouldNot(BeNil(), "a pod uses it")
		w.Expect(w.Delete(w.Context(), debugPod)).To(Succeed())
	}
	expectStatefulSetRemoved(w, policy, before)
	if policy == appsapi.DeletionRetain {
		w.Expect(w.pod("looks")).To(HaveField("DeletionTimestamp", BeNil()), "a foreign pod is not deleted")
	}
	w.waitReady()
}

// createDebugPod creates a pod as kubectl debug --copy-to --keep-labels does: with the labels and the volume of another
// one, but without an owner.
func (w *world) createDebugPod(name string) *corev1.Pod {
	from := w.pod(name)
	debugPod := &corev1.Pod{ObjectMeta: w.objectMeta("looks"), Spec: *from.Spec.DeepCopy()}
	debugPod.Labels = maps.Clone(from.Labels)
	w.Expect(w.Create(w.Context(), debugPod)).To(Succeed())
	return debugPod
}

func stackDeletedDuringRecreate(w *world, policy appsapi.DeletionPolicy) {
	before := deleteStatefulSetWhileSuspended(w, policy)
	w.Expect(w.Delete(w.Context(), w.stack())).To(Succeed())
	expectStatefulSetRemoved(w, policy, before)
	w.Eventually(func() any { return w.stack() }, "60s").Should(BeNil())
}
