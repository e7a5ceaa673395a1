package appstack_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// boundSpec is a stack in which web uses api.
const boundSpec = `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", replicas: 2, ports: [{port: 80}]}}
- {name: api, service: {image: "shop/api:1", ports: [{port: 8080}]}}
- {name: lone, service: {image: "shop/lone:1", ports: [{port: 80}]}}
`

func TestRemovedComponentIsPruned(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	w.WaitIdle("shop")
	calls := w.OperatorRequests(func() {
		w.removeComponents("lone")
		w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "10ms").Should(BeFalse())
		w.Eventually(func() any { return w.service("shop-lone") }, "60s", "10ms").Should(BeNil(), "it is deleted after its Deployment")
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(deletedObjects(calls)).To(ConsistOf("deployments.apps shop-lone", "services shop-lone"), "%s", calls.Count())
	w.Expect(writtenNames(calls, "deployments.apps")).To(Equal([]string{"shop-lone"}))
	w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ComponentPruned"))
	w.expectSteadyState()
}

func TestRenamedComponentIsPrunedAfterRollout(t *testing.T) {
	w := newStory(t)
	w.expectReplacedAfterRollout(func(s *appsapi.AppStackSpec) {
		s.Components[1].Name, s.Components[1].RenamedFrom = "backend", "api"
		s.Components[0].Bindings[0].Component = "backend"
	}, "shop-backend")
}

func TestChangedResourceNameIsPrunedAfterRollout(t *testing.T) {
	w := newStory(t)
	w.expectReplacedAfterRollout(func(s *appsapi.AppStackSpec) { s.Components[1].ResourceName = "backend" }, "backend")
}

func (w *world) removeComponents(names ...string) {
	w.Helper()
	w.editSpec(func(s *appsapi.AppStackSpec) {
		var remaining []appsapi.Component
		for _, c := range s.Components {
			removed := false
			for _, name := range names {
				removed = removed || c.Name == name
			}
			if !removed {
				remaining = append(remaining, c)
			}
		}
		s.Components = remaining
	})
}

// exists reports whether a Deployment or a Service with this name exists.
func (w *world) exists(name string) bool { return w.deployment(name) != nil || w.service(name) != nil }

// deletedObjects returns the objects that the operator deleted.
func deletedObjects(calls audit.Events) []string {
	var out []string
	for _, e := range calls.Where((*audit.Event).Accepted) {
		if e.Verb == "delete" {
			out = append(out, e.Resource()+" "+e.ObjectRef.Name)
		}
	}
	return out
}

// podsWithAPIHost counts the pods of web that have the address of api in their environment.
func (w *world) podsWithAPIHost(host string) int {
	w.Helper()
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list, client.InNamespace(w.NS), client.MatchingLabels{"apps.holdfast.dev/workload": "deployment-shop-web"})).To(Succeed())
	n := 0
	for i := range list.Items {
		for _, e := range list.Items[i].Spec.Containers[0].Env {
			if e.Name == "API_HOST" && e.Value == host+"."+w.NS+".svc" {
				n++
			}
		}
	}
	return n
}

// TestComponentIsKeptWhilePodsUseIt removes a component with bound components: it is kept until no pod uses its address.
func TestComponentIsKeptWhilePodsUseIt(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	observer := w.startWatcher(deploymentResource, serviceResource)
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:slow"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(w.condition("Ready"), "60s", "10ms").Should(HavePrefix("False/Progressing: Deployment " + w.NS + "/shop-web waits for its pods"))
	w.Eventually(func() bool {
		both := w.deployment("shop-api") != nil && w.service("shop-api") != nil
		if n := w.podsWithAPIHost("shop-api"); n > 0 {
			w.Expect(both).To(BeTrue(), "%d pods use a deleted component", n)
		}
		return w.exists("shop-api")
	}, "60s", "10ms").Should(BeFalse())
	w.Expect(w.podsWithAPIHost("shop-api")).To(BeZero())
	w.waitReady()
	w.expectDeletedAfterRollout(observer, "shop-api", "shop-web")
	w.Expect(w.deployment("shop-web").Annotations).NotTo(HaveKey("apps.holdfast.dev/previous-depends-on"))
	w.expectSteadyState()
}

// expectDeletedAfterRollout checks that the children with one name were deleted only after a Deployment had no old pods.
func (w *world) expectDeletedAfterRollout(observer *watcher.Watcher, deletedName, userName string) {
	w.Helper()
	state := observer.State()
	for _, resource := range []watcher.Event{lastEvent(w, state.History(deploymentResource, w.NS+"/"+deletedName)), lastEvent(w, state.History(serviceResource, w.NS+"/"+deletedName))} {
		w.Expect(resource.Type).To(Equal(watch.Deleted))
		var before watcher.Event
		for _, e := range state.History(deploymentResource, w.NS+"/"+userName) {
			if parseVersion(w, e.ResourceVersion) < parseVersion(w, resource.ResourceVersion) {
				before = e
			}
		}
		d := &appsv1.Deployment{}
		content, err := yaml.Marshal(before.Object)
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(yaml.Unmarshal(content, d)).To(Succeed())
		w.Expect(d.Status.UpdatedReplicas).To(Equal(d.Status.Replicas))
		w.Expect(d.Status.AvailableReplicas).To(Equal(*d.Spec.Replicas))
	}
}

func lastEvent(w *world, history []watcher.Event) watcher.Event {
	w.Helper()
	w.Expect(history).NotTo(BeEmpty())
	return history[len(history)-1]
}

// TestComponentIsKeptWhileRolloutFails removes a component together with a broken edit.
func TestComponentIsKeptWhileRolloutFails(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:missing"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix(`False/ComponentDegraded: Component "web": Image "shop/web:missing"`))
	w.WaitIdle("shop")
	calls := w.OperatorRequestsWithin(time.Second)
	w.Expect(len(withoutEvents(calls))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.deployment("shop-api")).NotTo(BeNil())
	w.Expect(w.service("shop-api")).NotTo(BeNil())
	w.Expect(w.podsWithAPIHost("shop-api")).To(Equal(2))

	// A revert causes no change: the component was never deleted.
	uid := w.deployment("shop-api").UID
	w.editSpec(func(s *appsapi.AppStackSpec) {
		var all appsapi.AppStackSpec
		w.Expect(yaml.Unmarshal([]byte(boundSpec), &all)).To(Succeed())
		s.Components = all.Components
	})
	w.waitReady()
	w.Expect(w.deployment("shop-api").UID).To(Equal(uid))
	w.Expect(w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"]).To(Equal("1"))
	w.expectSteadyState()

	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:2"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(func() bool { return w.exists("shop-api") }, "60s", "50ms").Should(BeFalse())
	w.expectSteadyState()
}

// expectReplacedAfterRollout changes the name of api's children: the old ones are kept until the new ones are ready and
// all consumers use them.
func (w *world) expectReplacedAfterRollout(change func(*appsapi.AppStackSpec), name string) {
	w.create(boundSpec)
	w.waitReady()
	observer := w.startWatcher(deploymentResource, serviceResource)
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[1].Service.Image = "shop/api:slow"
		change(s)
	})
	w.Eventually(func() bool { return w.exists("shop-api") }, "60s", "20ms").Should(BeFalse())
	w.waitReady()
	w.Expect(w.podsWithAPIHost("shop-api")).To(BeZero())
	w.expectDeletedAfterRollout(observer, "shop-api", name)
	w.expectDeletedAfterRollout(observer, "shop-api", "shop-web")
	w.Expect(w.service(name)).NotTo(BeNil())
	w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ComponentPruned"))
	w.expectSteadyState()
}

// TestRenameWithSameResourceName renames a component whose children keep their names: the Deployment and its pods are
// kept.
func TestRenameWithSameResourceName(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	w.WaitIdle("shop")
	uids := func() []types.UID {
		return []types.UID{w.deployment("shop-api").UID, w.service("shop-api").UID, w.deployment("shop-web").UID}
	}
	before, rolls := uids(), w.deploymentRevisions()
	calls := w.OperatorRequests(func() {
		w.editSpec(func(s *appsapi.AppStackSpec) {
			s.Components[1].Name, s.Components[1].RenamedFrom, s.Components[1].ResourceName = "backend", "api", "shop-api"
			s.Components[0].Bindings[0] = appsapi.Binding{Component: "backend", EnvPrefix: "API"}
		})
		w.Eventually(func() map[string]string { return w.deployment("shop-web").Annotations }, "60s", "50ms").Should(And(
			HaveKeyWithValue("apps.holdfast.dev/depends-on", "backend"), Not(HaveKey("apps.holdfast.dev/previous-depends-on"))))
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(deletedObjects(calls)).To(BeEmpty())
	w.Expect(uids()).To(Equal(before))
	w.Expect(w.deploymentRevisions()).To(Equal(rolls), "no pods are replaced")
	w.Expect(w.deployment("shop-api").Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "backend"))
	w.Expect(w.service("shop-api").Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "backend"))
	w.expectSteadyState()
}

func TestRemovedPortsPruneService(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	calls := w.OperatorRequests(func() {
		w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
		w.Eventually(func() bool { return w.service("shop-lone") == nil }, "60s", "10ms").Should(BeTrue())
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(deletedObjects(calls)).To(Equal([]string{"services shop-lone"}))
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = []appsapi.Port{{Port: 80}} })
	w.Eventually(func() bool { return w.service("shop-lone") != nil }, "60s", "50ms").Should(BeTrue())
	w.waitReady()

	harness.Edit(w.World, w.service("shop-lone"), func(s *corev1.Service) {
		s.Annotations = map[string]string{"apps.holdfast.dev/prune": "disabled", "apps.holdfast.dev/applied-hash": s.Annotations["apps.holdfast.dev/applied-hash"]}
	})
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
	w.waitReady()
	w.expectSteadyState()
	w.removeComponents("lone")
	w.Eventually(func() bool { return w.deployment("shop-lone") == nil }, "60s", "50ms").Should(BeTrue())
	w.waitReady()
	w.expectSteadyState()
	w.Expect(w.service("shop-lone")).NotTo(BeNil(), "it is kept")
}

// TestForeignObjectsAreNotPruned creates foreign objects with all labels of Holdfast.
func TestForeignObjectsAreNotPruned(t *testing.T) {
	w := newStory(t)
	app := w.create(boundSpec)
	w.waitReady()
	labels := w.service("shop-lone").Labels
	labels["apps.holdfast.dev/owner-uid"] = "another"
	foreign := []client.Object{
		&corev1.Service{ObjectMeta: w.objectMeta("theirs"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&appsv1.Deployment{ObjectMeta: w.objectMeta("theirs"), Spec: *w.deployment("shop-lone").Spec.DeepCopy()},
		&appsv1.ControllerRevision{ObjectMeta: w.objectMeta("theirs"), Revision: 99, Data: runtime.RawExtension{Raw: []byte(`{}`)}},
	}
	unowned := &corev1.Service{ObjectMeta: w.objectMeta("nobodys"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	unowned.Labels = map[string]string{}
	for k, v := range labels {
		unowned.Labels[k] = v
	}
	unowned.Labels["apps.holdfast.dev/owner-uid"] = string(app.UID) // owned by its label, without an owner reference
	calls := w.OperatorRequests(func() {
		for _, obj := range append(foreign, unowned) {
			if obj != unowned {
				obj.SetLabels(labels)
			}
			w.Expect(w.Create(w.Context(), obj)).To(Succeed())
		}
		w.removeComponents("lone")
		w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
		w.waitReady()
		w.WaitIdle("shop")
	})
	w.Expect(deletedObjects(calls)).To(ConsistOf("deployments.apps shop-lone", "services shop-lone"))
	for _, obj := range append(foreign, unowned) {
		uid := obj.GetUID()
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		w.Expect(obj.GetUID()).To(Equal(uid))
		for _, m := range obj.GetManagedFields() {
			w.Expect(m.Manager).NotTo(HavePrefix("holdfast"))
		}
	}
	w.expectSteadyState()
}

// TestPrunedChildHeldByFinalizer names the finalizer of an object that is to be deleted, and since when.
func TestPrunedChildHeldByFinalizer(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	held := w.service("shop-lone")
	w.addFinalizer(held)
	w.removeComponents("lone")
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(MatchRegexp(fmt.Sprintf(
		`^False/Progressing: Waiting for Service %s/shop-lone to be deleted \(deletion requested at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\): blocked by finalizers %s$`, w.NS, foreignFinalizer)))
	w.Eventually(func() bool { return w.deployment("shop-lone") == nil }, "60s", "50ms").Should(BeTrue())
	w.WaitIdle("shop")
	calls := w.OperatorRequestsWithin(time.Second)
	w.Expect(len(withoutEvents(calls))).To(BeZero(), "%s", calls.Count())
	w.removeFinalizer(held)
	w.waitReady()
	w.expectSteadyState()
}

// TestOptionalChildHeldByFinalizer does the same for an optional child.
func TestOptionalChildHeldByFinalizer(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	held := w.service("shop-lone")
	w.addFinalizer(held)
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(MatchRegexp(fmt.Sprintf(
		`^False/Progressing: Waiting for Service %s/shop-lone to be deleted \(deletion requested at 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\): blocked by finalizers %s$`, w.NS, foreignFinalizer)))
	w.removeFinalizer(held)
	w.waitReady()
	w.expectSteadyState()
}

// TestComponentRestoredWhileBeingDeleted restores a component whose Deployment is already being deleted.
func TestComponentRestoredWhileBeingDeleted(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	held := w.deployment("shop-lone")
	w.addFinalizer(held)
	w.removeComponents("lone")
	w.Eventually(func() bool { return w.deployment("shop-lone").DeletionTimestamp != nil }, "60s", "20ms").Should(BeTrue())
	w.editSpec(func(s *appsapi.AppStackSpec) {
		var all appsapi.AppStackSpec
		w.Expect(yaml.Unmarshal([]byte(boundSpec), &all)).To(Succeed())
		s.Components = all.Components
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix(
		fmt.Sprintf("False/Progressing: Deployment %s/shop-lone is being deleted; waiting for finalizers ", w.NS)))
	w.Eventually(func() bool { return w.service("shop-lone") != nil }, "60s", "50ms").Should(BeTrue(), "the Service does not wait")
	w.removeFinalizer(held)
	w.waitReady()
	w.Expect(w.deployment("shop-lone").UID).NotTo(Equal(held.UID))
	w.expectSteadyState()
}

// TestNoPruneDuringConflict removes a component while another one has a conflict: not all declared objects exist yet, so
// nothing is deleted.
func TestNoPruneDuringConflict(t *testing.T) {
	w := newStory(t)
	w.create(boundSpec)
	w.waitReady()
	foreign := &corev1.Service{ObjectMeta: w.objectMeta("shop-new"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	w.Expect(w.Create(w.Context(), foreign)).To(Succeed())
	w.editSpec(func(s *appsapi.AppStackSpec) {
		s.Components[2] = appsapi.Component{Name: "new", Service: s.Components[2].Service}
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("False/NameConflict: Service " + w.NS + "/shop-new exists"))
	w.Eventually(func() any { return w.deployment("shop-new") }, "60s").ShouldNot(BeNil(), "objects without a conflict are created")
	w.Consistently(func() any { return w.deployment("shop-lone") }, "500ms", "50ms").ShouldNot(BeNil())
	w.Expect(w.service("shop-lone")).NotTo(BeNil())
	w.Expect(w.Delete(w.Context(), foreign)).To(Succeed())
	w.waitConflictResolved()
	w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
	w.waitReady()
	w.expectSteadyState()
}
