package appservice_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gcTimeout is the maximum time for garbage collection: the collector discovers new kinds every 30 s.
const gcTimeout = 60 * time.Second

func TestRecreateAfterDeletion(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	before := []string{normalize(w, w.deployment()), normalize(w, w.service())}
	for range 3 {
		old := w.app().UID
		w.Expect(w.Delete(w.Context(), w.app())).To(Succeed())
		w.Eventually(func() bool { return w.app() == nil }, "60s", "1ms").Should(BeTrue())
		w.Expect(w.create(basicSpec).UID).NotTo(Equal(old))
		w.Eventually(w.condition("Ready"), gcTimeout, "100ms").Should(HavePrefix("True/"))
		w.Expect([]string{normalize(w, w.deployment()), normalize(w, w.service())}).To(Equal(before))
		w.Expect(metav1.IsControlledBy(w.deployment(), w.app())).To(BeTrue())
	}
	w.Expect(w.events()).NotTo(ContainElement("NameConflict"))
	w.expectSteadyState()
}

func TestDeletionRemovesChildren(t *testing.T) {
	t.Parallel()
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			w := newStory(t)
			w.create(basicSpec)
			w.waitReady()
			w.Expect(w.Delete(w.Context(), w.app(), client.PropagationPolicy(policy))).To(Succeed())
			w.Eventually(w.remainingObjects, gcTimeout, "100ms").Should(BeEmpty())
			w.Expect(w.app()).To(BeNil())
		})
	}
}

// remainingObjects returns the objects of the application that still exist.
func (w *world) remainingObjects() []string {
	var remaining []string
	for _, list := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.ReplicaSetList{}, &corev1.ServiceList{}, &corev1.PodList{}} {
		w.Expect(w.List(w.Context(), list, client.InNamespace(w.NS))).To(Succeed())
		if n := meta.LenList(list); n > 0 {
			remaining = append(remaining, fmt.Sprintf("%d in %T", n, list))
		}
	}
	return remaining
}

// TestOrphanedChildrenAreAdopted deletes the AppService and keeps its children. A new AppService of the same name adopts
// them only with the adopt annotation, without replacing pods.
func TestOrphanedChildrenAreAdopted(t *testing.T) {
	w := newStory(t)
	w.create(basicSpec)
	w.waitReady()
	before := w.deployment()
	w.Expect(w.Delete(w.Context(), w.app(), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() bool { return w.app() == nil }, gcTimeout, "100ms").Should(BeTrue())
	w.Eventually(func() []metav1.OwnerReference { return w.deployment().OwnerReferences }, "60s").Should(BeEmpty())
	w.Expect(w.service().OwnerReferences).To(BeEmpty())

	w.create(basicSpec)
	w.Eventually(w.condition("Ready"), "60s").Should(Equal("False/NameConflict: Deployment " + w.NS +
		`/web was created by another AppService "web"; delete it, choose another name, or allow adoption of all its objects (checked again within 30 s): ` +
		"kubectl annotate deployments,statefulsets,jobs,cronjobs,services,configmaps,poddisruptionbudgets,horizontalpodautoscalers,ingresses -n " + w.NS +
		" -l apps.holdfast.dev/owner-uid=" + before.Labels["apps.holdfast.dev/owner-uid"] + " apps.holdfast.dev/adopt=true"))
	for _, child := range w.children() {
		edit(w, child, allowAdoption)
	}
	w.waitReady()
	after := w.deployment()
	w.Expect(after.UID).To(Equal(before.UID))
	w.Expect(w.replicaSets()).To(HaveLen(1), "no pods are replaced")
	w.Expect(after.Spec.Template).To(Equal(before.Spec.Template))
	w.Expect(metav1.IsControlledBy(w.service(), w.app())).To(BeTrue())
	w.Eventually(w.events, "60s").Should(ContainElement("ComponentAdopted"))
	w.expectSteadyState()
}

// normalize removes fields that differ between objects and applications with the same spec.
func normalize(w *world, child client.Object) string {
	w.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(child.DeepCopyObject())
	w.Expect(err).NotTo(HaveOccurred())
	delete(content, "status")
	metadata := asMap(content["metadata"])
	for _, name := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences", "namespace"} {
		delete(metadata, name)
	}
	for _, key := range []string{"apps.holdfast.dev/applied-hash", "deployment.kubernetes.io/revision"} {
		delete(asMap(metadata["annotations"]), key)
	}
	spec := asMap(content["spec"])
	delete(spec, "clusterIP")
	delete(spec, "clusterIPs")
	text, err := json.Marshal(content)
	w.Expect(err).NotTo(HaveOccurred())
	return strings.NewReplacer(string(w.app().UID), "UID", `"`+w.name+`"`, `"NAME"`, "deployment-"+w.name, "deployment-NAME").Replace(string(text))
}
