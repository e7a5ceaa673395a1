package appstack_test

import (
	"fmt"
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
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// bound is a stack in which web uses api.
const bound = `
components:
- {name: web, bindings: [{component: api}], service: {image: "shop/web:1", replicas: 2, ports: [{port: 80}]}}
- {name: api, service: {image: "shop/api:1", ports: [{port: 8080}]}}
- {name: lone, service: {image: "shop/lone:1", ports: [{port: 80}]}}
`

func init() {
	stories["prune: nobody needs it"] = func(w *world) {
		w.create(bound)
		w.becomesReady()
		w.FallsSilent("shop")
		calls := w.Calls(func() {
			w.removes("lone")
			w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "10ms").Should(BeFalse())
			w.Eventually(func() any { return w.service("shop-lone") }, "60s", "10ms").Should(BeNil(), "it goes after what it leads to")
			w.becomesReady()
			w.FallsSilent("shop")
		})
		w.Expect(deleted(calls)).To(ConsistOf("deployments.apps shop-lone", "services shop-lone"), "%s", calls.Count())
		w.Expect(written(calls, "deployments.apps")).To(Equal([]string{"shop-lone"}))
		w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ComponentPruned"))
		w.settles()
	}
	stories["prune: pods need it"] = neededByPods
	stories["prune: pods that cannot be replaced need it"] = neededForLong
	stories["prune: renamed"] = func(w *world) {
		w.replaces(func(s *appsapi.AppStackSpec) {
			s.Components[1].Name, s.Components[1].RenamedFrom = "backend", "api"
			s.Components[0].Bindings[0].Component = "backend"
		}, "shop-backend")
	}
	stories["prune: resourceName changed"] = func(w *world) {
		w.replaces(func(s *appsapi.AppStackSpec) { s.Components[1].ResourceName = "backend" }, "backend")
	}
	stories["prune: renamed, and its children keep their name"] = renamedInName
	stories["prune: ports removed"] = portsRemoved
	stories["prune: what is not ours stays"] = foreignStays
	stories["prune: held by a finalizer"] = heldLeftover
	stories["prune: held by a finalizer, of a component that stays"] = heldOptional
	stories["prune: comes back in between"] = comesBack
	stories["prune: not while something is refused"] = refusedMeanwhile
}

// removes takes components out of the spec.
func (w *world) removes(names ...string) {
	w.Helper()
	w.edit(func(s *appsapi.AppStackSpec) {
		var left []appsapi.Component
		for _, c := range s.Components {
			gone := false
			for _, name := range names {
				gone = gone || c.Name == name
			}
			if !gone {
				left = append(left, c)
			}
		}
		s.Components = left
	})
}

// exists says whether a Deployment or a Service of this name is there.
func (w *world) exists(name string) bool { return w.deployment(name) != nil || w.service(name) != nil }

// deleted are the objects that the operator deleted.
func deleted(calls audit.Events) []string {
	var out []string
	for _, e := range calls.Where((*audit.Event).Accepted) {
		if e.Verb == "delete" {
			out = append(out, e.Resource()+" "+e.ObjectRef.Name)
		}
	}
	return out
}

// oldPods counts the pods of web that are told where api is.
func (w *world) oldPods(host string) int {
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

// neededByPods removes what others are bound to: it stays until no pod is told of it.
func neededByPods(w *world) {
	w.create(bound)
	w.becomesReady()
	eye := w.watches(deploymentResource, serviceResource)
	w.edit(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:slow"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(w.condition("Ready"), "60s", "10ms").Should(HavePrefix("False/Progressing: Deployment " + w.NS + "/shop-web waits for its pods"))
	for w.exists("shop-api") {
		both := w.deployment("shop-api") != nil && w.service("shop-api") != nil
		if n := w.oldPods("shop-api"); n > 0 {
			w.Expect(both).To(BeTrue(), "%d pods need what is gone", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.Expect(w.oldPods("shop-api")).To(BeZero())
	w.becomesReady()
	w.goneAfterRollout(eye, "shop-api", "shop-web")
	w.Expect(w.deployment("shop-web").Annotations).NotTo(HaveKey("apps.holdfast.dev/depended-on"))
	w.settles()
}

// goneAfterRollout says that the children of one name were deleted only when a Deployment
// had no old pod left.
func (w *world) goneAfterRollout(eye *watcher.Watcher, gone, user string) {
	w.Helper()
	seen := eye.State()
	for _, resource := range []watcher.Event{last(w, seen.History(deploymentResource, w.NS+"/"+gone)), last(w, seen.History(serviceResource, w.NS+"/"+gone))} {
		w.Expect(resource.Type).To(Equal(watch.Deleted))
		var before watcher.Event
		for _, e := range seen.History(deploymentResource, w.NS+"/"+user) {
			if number(w, e.ResourceVersion) < number(w, resource.ResourceVersion) {
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

func last(w *world, history []watcher.Event) watcher.Event {
	w.Helper()
	w.Expect(history).NotTo(BeEmpty())
	return history[len(history)-1]
}

// neededForLong removes it together with an edit that does not work.
func neededForLong(w *world) {
	w.create(bound)
	w.becomesReady()
	w.edit(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:missing"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix(`False/ComponentDegraded: Component "web": Image "shop/web:missing"`))
	w.FallsSilent("shop")
	calls := w.Calls(func() { time.Sleep(time.Second) })
	w.Expect(len(deeds(calls))).To(BeZero(), "%s", calls.Count())
	w.Expect(w.deployment("shop-api")).NotTo(BeNil())
	w.Expect(w.service("shop-api")).NotTo(BeNil())
	w.Expect(w.oldPods("shop-api")).To(Equal(2))

	// The way back costs nothing: it never went.
	uid := w.deployment("shop-api").UID
	w.edit(func(s *appsapi.AppStackSpec) {
		var all appsapi.AppStackSpec
		w.Expect(yaml.Unmarshal([]byte(bound), &all)).To(Succeed())
		s.Components = all.Components
	})
	w.becomesReady()
	w.Expect(w.deployment("shop-api").UID).To(Equal(uid))
	w.Expect(w.deployment("shop-api").Annotations["deployment.kubernetes.io/revision"]).To(Equal("1"))
	w.settles()

	w.edit(func(s *appsapi.AppStackSpec) {
		s.Components[0].Bindings, s.Components[0].Service.Image = nil, "shop/web:2"
		s.Components = append(s.Components[:1], s.Components[2:]...)
	})
	w.Eventually(func() bool { return w.exists("shop-api") }, "60s", "50ms").Should(BeFalse())
	w.settles()
}

// replaces gives the children of api another name: what was there stays until the new one
// is ready and everybody is told of it.
func (w *world) replaces(change func(*appsapi.AppStackSpec), name string) {
	w.create(bound)
	w.becomesReady()
	eye := w.watches(deploymentResource, serviceResource)
	w.edit(func(s *appsapi.AppStackSpec) {
		s.Components[1].Service.Image = "shop/api:slow"
		change(s)
	})
	w.Eventually(func() bool { return w.exists("shop-api") }, "60s", "20ms").Should(BeFalse())
	w.becomesReady()
	w.Expect(w.oldPods("shop-api")).To(BeZero())
	w.goneAfterRollout(eye, "shop-api", name)
	w.goneAfterRollout(eye, "shop-api", "shop-web")
	w.Expect(w.service(name)).NotTo(BeNil())
	w.Expect(w.Events("AppStack", "shop")).To(ContainElement("ComponentPruned"))
	w.settles()
}

// renamedInName renames a component whose children keep their name: it is the same
// Deployment, with the same pods.
func renamedInName(w *world) {
	w.create(bound)
	w.becomesReady()
	w.FallsSilent("shop")
	uids := func() []types.UID {
		return []types.UID{w.deployment("shop-api").UID, w.service("shop-api").UID, w.deployment("shop-web").UID}
	}
	before, rolls := uids(), w.rolls()
	calls := w.Calls(func() {
		w.edit(func(s *appsapi.AppStackSpec) {
			s.Components[1].Name, s.Components[1].RenamedFrom, s.Components[1].ResourceName = "backend", "api", "shop-api"
			s.Components[0].Bindings[0] = appsapi.Binding{Component: "backend", EnvPrefix: "API"}
		})
		w.Eventually(func() map[string]string { return w.deployment("shop-web").Annotations }, "60s", "50ms").Should(And(
			HaveKeyWithValue("apps.holdfast.dev/depends-on", "backend"), Not(HaveKey("apps.holdfast.dev/depended-on"))))
		w.becomesReady()
		w.FallsSilent("shop")
	})
	w.Expect(deleted(calls)).To(BeEmpty())
	w.Expect(uids()).To(Equal(before))
	w.Expect(w.rolls()).To(Equal(rolls), "pods were replaced")
	w.Expect(w.deployment("shop-api").Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "backend"))
	w.Expect(w.service("shop-api").Labels).To(HaveKeyWithValue("app.kubernetes.io/component", "backend"))
	w.settles()
}

func portsRemoved(w *world) {
	w.create(bound)
	w.becomesReady()
	calls := w.Calls(func() {
		w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
		w.Eventually(func() bool { return w.service("shop-lone") == nil }, "60s", "10ms").Should(BeTrue())
		w.becomesReady()
		w.FallsSilent("shop")
	})
	w.Expect(deleted(calls)).To(Equal([]string{"services shop-lone"}))
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = []appsapi.Port{{Port: 80}} })
	w.Eventually(func() bool { return w.service("shop-lone") != nil }, "60s", "50ms").Should(BeTrue())
	w.becomesReady()

	stage.Edit(w.World, w.service("shop-lone"), func(s *corev1.Service) {
		s.Annotations = map[string]string{"apps.holdfast.dev/prune": "disabled", "apps.holdfast.dev/applied": s.Annotations["apps.holdfast.dev/applied"]}
	})
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
	w.becomesReady()
	w.settles()
	w.removes("lone")
	w.Eventually(func() bool { return w.deployment("shop-lone") == nil }, "60s", "50ms").Should(BeTrue())
	w.becomesReady()
	w.settles()
	w.Expect(w.service("shop-lone")).NotTo(BeNil(), "it was to stay")
}

// foreignStays puts objects of others beside ours, with all the labels that ours have.
func foreignStays(w *world) {
	app := w.create(bound)
	w.becomesReady()
	labels := w.service("shop-lone").Labels
	labels["apps.holdfast.dev/owner-uid"] = "another"
	theirs := []client.Object{
		&corev1.Service{ObjectMeta: w.meta("theirs"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&appsv1.Deployment{ObjectMeta: w.meta("theirs"), Spec: *w.deployment("shop-lone").Spec.DeepCopy()},
		&appsv1.ControllerRevision{ObjectMeta: w.meta("theirs"), Revision: 99, Data: runtime.RawExtension{Raw: []byte(`{}`)}},
	}
	unlabelled := &corev1.Service{ObjectMeta: w.meta("nobodys"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	unlabelled.Labels = map[string]string{}
	for k, v := range labels {
		unlabelled.Labels[k] = v
	}
	unlabelled.Labels["apps.holdfast.dev/owner-uid"] = string(app.UID) // ours by its label, without a reference
	calls := w.Calls(func() {
		for _, obj := range append(theirs, unlabelled) {
			if obj != unlabelled {
				obj.SetLabels(labels)
			}
			w.Expect(w.Create(w.Context(), obj)).To(Succeed())
		}
		w.removes("lone")
		w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
		w.becomesReady()
		w.FallsSilent("shop")
	})
	w.Expect(deleted(calls)).To(ConsistOf("deployments.apps shop-lone", "services shop-lone"))
	for _, obj := range append(theirs, unlabelled) {
		uid := obj.GetUID()
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
		w.Expect(obj.GetUID()).To(Equal(uid))
		for _, m := range obj.GetManagedFields() {
			w.Expect(m.Manager).NotTo(HavePrefix("holdfast"))
		}
	}
	w.settles()
}

// heldLeftover names who keeps what is to go, and since when.
func heldLeftover(w *world) {
	w.create(bound)
	w.becomesReady()
	held := w.service("shop-lone")
	w.holds(held)
	w.removes("lone")
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(MatchRegexp(fmt.Sprintf(
		`^False/Progressing: Service %s/shop-lone is being deleted since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ and waits for the finalizers %s$`, w.NS, foreignFinalizer)))
	w.Eventually(func() bool { return w.deployment("shop-lone") == nil }, "60s", "50ms").Should(BeTrue())
	w.FallsSilent("shop")
	calls := w.Calls(func() { time.Sleep(time.Second) })
	w.Expect(len(deeds(calls))).To(BeZero(), "%s", calls.Count())
	w.releases(held)
	w.becomesReady()
	w.settles()
}

// heldOptional is the same for a child that a component could have and does not want.
func heldOptional(w *world) {
	w.create(bound)
	w.becomesReady()
	held := w.service("shop-lone")
	w.holds(held)
	w.editComponent("lone", func(c *appsapi.Component) { c.Service.Ports = nil })
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(MatchRegexp(fmt.Sprintf(
		`^False/Progressing: Service %s/shop-lone is being deleted since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ and waits for the finalizers %s$`, w.NS, foreignFinalizer)))
	w.releases(held)
	w.becomesReady()
	w.settles()
}

// comesBack wants a component again whose Deployment is on its way out and cannot be
// stopped.
func comesBack(w *world) {
	w.create(bound)
	w.becomesReady()
	held := w.deployment("shop-lone")
	w.holds(held)
	w.removes("lone")
	w.Eventually(func() bool { return w.deployment("shop-lone").DeletionTimestamp != nil }, "60s", "20ms").Should(BeTrue())
	w.edit(func(s *appsapi.AppStackSpec) {
		var all appsapi.AppStackSpec
		w.Expect(yaml.Unmarshal([]byte(bound), &all)).To(Succeed())
		s.Components = all.Components
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix(
		fmt.Sprintf("False/Progressing: Deployment %s/shop-lone is being deleted and waits for ", w.NS)))
	w.Eventually(func() bool { return w.service("shop-lone") != nil }, "60s", "50ms").Should(BeTrue(), "the Service need not wait")
	w.releases(held)
	w.becomesReady()
	w.Expect(w.deployment("shop-lone").UID).NotTo(Equal(held.UID))
	w.settles()
}

// refusedMeanwhile removes a component while another one is refused: what is declared is
// not there yet, so nothing goes.
func refusedMeanwhile(w *world) {
	w.create(bound)
	w.becomesReady()
	theirs := &corev1.Service{ObjectMeta: w.meta("shop-new"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	w.Expect(w.Create(w.Context(), theirs)).To(Succeed())
	w.edit(func(s *appsapi.AppStackSpec) {
		s.Components[2] = appsapi.Component{Name: "new", Service: s.Components[2].Service}
	})
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("False/NameConflict: Service " + w.NS + "/shop-new exists"))
	time.Sleep(500 * time.Millisecond)
	w.Expect(w.deployment("shop-new")).NotTo(BeNil(), "what is not refused is there")
	w.Expect(w.deployment("shop-lone")).NotTo(BeNil())
	w.Expect(w.service("shop-lone")).NotTo(BeNil())
	w.Expect(w.Delete(w.Context(), theirs)).To(Succeed())
	w.looksAgain()
	w.Eventually(func() bool { return w.exists("shop-lone") }, "60s", "50ms").Should(BeFalse())
	w.becomesReady()
	w.settles()
}
