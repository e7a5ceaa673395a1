package appstack_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Stacks to delete.
const (
	// diamondSpec has, from the bottom: store; then auth, and migrate with api; then web and report.
	diamondSpec = `
components:
- {name: web, dependsOn: [auth], bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80, targetPort: 8080}]}}
- {name: report, dependsOn: [api], job: {image: "shop/report:done", schedule: "0 0 1 1 *"}}
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
- {name: auth, bindings: [{component: store}], service: {image: "shop/auth:1"}}
- {name: migrate, bindings: [{component: store}], job: {image: "shop/migrate:done"}}
- {name: store, service: {image: "shop/store:1", ports: [{port: 5432}]}}
`
	// chainSpec is a chain from store to web.
	chainSpec = `
components:
- {name: web, dependsOn: [api], service: {image: "shop/web:1", ports: [{port: 80, targetPort: 8080}]}}
- {name: api, dependsOn: [auth], service: {image: "shop/api:1"}}
- {name: auth, dependsOn: [store], service: {image: "shop/auth:1"}}
- {name: store, service: {image: "shop/store:1"}}
`
	// singleServiceSpec has no dependencies.
	singleServiceSpec = `
components:
- {name: lone, service: {image: "shop/lone:1"}}
`
)

func newDeletionStory(t *testing.T) *deletionCase {
	t.Helper()
	w := newStory(t)
	observer, err := watcher.StartInNamespace(t.Context(), w.Plane.Config, w.NS, deletionResources...)
	w.Expect(err).NotTo(HaveOccurred())
	return &deletionCase{world: w, watcher: observer}
}

// skipUnlessLong skips slow tests.
func skipUnlessLong(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("slow: HOLDFAST_LONG=1 runs it")
	}
}

// chainOrder is the order in which the components of chainSpec are deleted.
var chainOrder = []string{"web", "api", "auth", "store"}

func TestStackDeletionInForeground(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(diamondSpec)
	calls := e.OperatorRequests(func() {
		e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationForeground))
		e.waitAllGone()
	})
	e.Expect(e.childWritesAfterDeletion(calls)).To(BeEmpty())
}

func TestStackDeletionWithNamespace(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(diamondSpec)
	e.deleteEnclosing(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.NS}})
}

func TestStackRecreatedAfterDeletion(t *testing.T) {
	e := newDeletionStory(t)
	for range 5 {
		e.create(diamondSpec)
		e.waitReady()
		e.deleteStack()
		e.waitStackGone()
	}
	e.createAndWaitIdle(diamondSpec)
	e.Expect(e.readyReasons()).To(HaveEach(BeElementOf("Progressing", "WaitingForDependency", "Reconciled", "Deleting")))
	e.expectSteadyState()
}

func TestStackDeletionAgainstBlockedSpec(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	e.reverseDependencies("shop/store:never")
	e.Eventually(e.condition("Ready"), "60s").Should(HavePrefix("False/WaitingForDependency"))
	e.Expect(e.deleteAndExpectOrder()).To(Equal(chainOrder), "the deletion order is that of the running workloads")
}

func TestStackDeletionAgainstNewSpec(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	e.reverseDependencies("shop/store:1")
	e.deleteStack()
	e.waitAllGone()
	e.expectDeletionOrder()
}

func TestStackDeletionWithInvalidSpec(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	e.editComponent("store", func(c *appsapi.Component) { c.DependsOn = []string{"web"} })
	e.Eventually(e.condition("Stalled"), "60s").Should(HavePrefix("True/InvalidSpec"))
	e.Expect(e.deleteAndExpectOrder()).To(Equal(chainOrder))
}

func TestStackDeletionWhileSuspended(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	e.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
	e.Eventually(e.condition("Ready"), "60s").Should(HavePrefix("True/Suspended"))
	e.deleteAndExpectOrder()
}

func TestStackDeletionWhileJobRuns(t *testing.T) {
	e := newDeletionStory(t)
	e.create(strings.Replace(diamondSpec, "shop/migrate:done", "shop/migrate:works", 1))
	e.waitFor("the job to work", func(s watcher.State) bool {
		return slices.ContainsFunc(s.Live(podResource), func(p *unstructured.Unstructured) bool {
			phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
			return p.GetNamespace() == e.NS && phase == "Running" && p.GetLabels()["batch.kubernetes.io/job-name"] != ""
		})
	})
	e.WaitIdle("shop")
	e.Expect(e.deleteAndExpectOrder()).To(ConsistOf("auth", "migrate", "store"), "api was never created")
}

func TestStackDeletionDuringFirstRollout(t *testing.T) {
	e := newDeletionStory(t)
	e.create(strings.Replace(diamondSpec, "shop/api:1", "shop/api:never", 1))
	e.Eventually(func() *appsv1.Deployment { return e.deployment("shop-api") }, "60s").ShouldNot(BeNil())
	e.WaitIdle("shop")
	e.Expect(e.deleteAndExpectOrder()).To(ConsistOf("api", "auth", "migrate", "store"), "dependents of api were never created")
}

// TestStackDeletionAfterDelay deletes a stack at different times of its first rollout.
func TestStackDeletionAfterDelay(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 20, 50, 100, 200, 400, 800, 1600, 3200} {
		t.Run(fmt.Sprintf("%d ms", after), func(t *testing.T) {
			if after%400 != 0 {
				skipUnlessLong(t)
			}
			e := newDeletionStory(t)
			first := newWorld(t, e.Harness) // by then the garbage collector knows the kind
			first.create(singleServiceSpec)
			first.waitReady()
			e.create(diamondSpec)
			time.Sleep(after * time.Millisecond) // time of the deletion
			e.deleteStack()
			e.waitAllGone()
			// A stack that is deleted while it gets its finalizer is deleted at once: the API server checks for
			// finalizers before the deletion, not during it.
			if slices.ContainsFunc(e.watcher.History(stackResource, e.NS+"/shop"), func(x watcher.Event) bool {
				return x.Type == watch.Modified && x.Object.GetDeletionTimestamp() != nil
			}) {
				e.expectDeletionOrder()
			}
		})
	}
}

// TestStackDeletionInBackground deletes each child once; the pods of the first ones terminate slowly.
func TestStackDeletionInBackground(t *testing.T) {
	e := newDeletionStory(t)
	calls := e.OperatorRequests(func() { e.createAndWaitIdle(diamondSpec) })
	e.Expect(calls.Writes()[0].Resource()).To(Equal("appstacks.apps.holdfast.dev"), "the finalizer is set first:\n%s", calls.Count())
	web, api := e.delayPodTermination("web"), e.delayPodTermination("api")
	calls = e.OperatorRequests(func() {
		e.deleteStack()
		web()
		api()
		e.waitAllGone()
	})
	e.Expect(e.childWritesAfterDeletion(calls)).To(BeEmpty())
	e.expectDeletionOrder()
	var names []string
	for _, d := range calls.Where(func(x *audit.Event) bool { return x.Verb == "delete" && x.Accepted() }) {
		names = append(names, d.ObjectRef.Resource+" "+d.ObjectRef.Name)
		e.Expect(string(d.RequestObject)).To(And(ContainSubstring(`"uid"`), ContainSubstring(`"resourceVersion"`)))
	}
	e.Expect(names).To(ConsistOf("deployments shop-web", "services shop-web", "cronjobs shop-report", "deployments shop-api", "services shop-api",
		"poddisruptionbudgets shop-api", "deployments shop-auth", HavePrefix("jobs shop-migrate-"), "deployments shop-store", "services shop-store"), "each once")
	e.Expect(e.Events("AppStack", "shop")).NotTo(ContainElement("Deleting"), "no event for a requested deletion")
}

// TestStackDeletionOrphansChildren deletes the stack and keeps its children. A new stack of the same name does not adopt
// them.
func TestStackDeletionOrphansChildren(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(diamondSpec)
	before := e.ownedObjects(e.watcher.State())
	uid := e.deployment("shop-web").Labels["apps.holdfast.dev/owner-uid"]
	calls := e.OperatorRequestsWithin(time.Second, func() {
		e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationOrphan))
		e.waitStackGone()
		e.Logf("orphaned after %.1f s", time.Since(e.deletedAt).Seconds())
		e.waitFor("removal of the owner references", func(s watcher.State) bool { return e.countOwnerReferences(s) == 0 })
		e.Touch(e.deployment("shop-web"), e.service("shop-web"), &e.jobs("migrate")[0])
	}).Writes()
	e.Expect(e.ownedObjects(e.watcher.State())).To(Equal(before))
	e.Expect(len(calls)).To(Equal(len(calls.Of("appstacks.apps.holdfast.dev"))), "only the finalizer is removed:\n%s", calls.Count())

	calls = e.OperatorRequests(func() {
		e.create(diamondSpec)
		e.Eventually(e.condition("Ready"), "60s").Should(Equal("False/NameConflict: Deployment " + e.NS +
			`/shop-web was created by another AppStack "shop"; delete it, choose another name, or allow adoption of all its objects (checked again within 30 s): ` +
			"kubectl annotate deployments,statefulsets,jobs,cronjobs,services,configmaps,poddisruptionbudgets,horizontalpodautoscalers,ingresses -n " + e.NS +
			" -l apps.holdfast.dev/owner-uid=" + uid + " apps.holdfast.dev/adopt=true"))
	}).Writes().Where((*audit.Event).Accepted)
	e.Expect(e.countOwnerReferences(e.watcher.State())).To(BeZero())
	after := e.ownedObjects(e.watcher.State())
	for key, uid := range before {
		e.Expect(after).To(HaveKeyWithValue(key, uid))
	}
	e.Expect(calls.Of("deployments.apps", "services", "jobs.batch", "cronjobs.batch")).To(BeEmpty())
	for _, call := range calls.Of("controllerrevisions.apps") {
		e.Expect(call.Verb).To(Equal("create"), "revisions of the previous stack are not changed")
	}
}

// reverseDependencies reverses the dependency between web and api.
func (e *deletionCase) reverseDependencies(store string) {
	e.Helper()
	e.editSpec(func(s *appsapi.AppStackSpec) {
		for i := range s.Components {
			switch c := &s.Components[i]; c.Name {
			case "web":
				c.DependsOn, c.Service.Image = []string{"store"}, "shop/web:2"
			case "api":
				c.DependsOn, c.Service.Image = []string{"web"}, "shop/api:2"
			case "store":
				c.Service.Image = store
			}
		}
	})
}

// TestStackDeletionWithCyclicDependencies deletes workloads with a cycle: while web is suspended, api becomes dependent
// on it. Neither can be first, but auth is deleted after api.
func TestStackDeletionWithCyclicDependencies(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	e.editOperations("web", func(o *appsapi.ComponentOperations) { o.Suspend = true })
	e.editComponent("web", func(c *appsapi.Component) { c.DependsOn = nil })
	e.editComponent("api", func(c *appsapi.Component) { c.DependsOn = []string{"auth", "web"} })
	e.Eventually(func() string { return e.deployment("shop-api").Annotations["apps.holdfast.dev/depends-on"] }, "60s").Should(Equal("auth,web"))
	e.Expect(e.deployment("shop-web").Annotations).To(HaveKeyWithValue("apps.holdfast.dev/depends-on", "api"))
	e.deleteStack()
	e.waitAllGone()
	timelines := e.workloadTimelines()
	e.Expect(timelines["deployment-shop-api"].goneVersion).To(BeNumerically("<", timelines["deployment-shop-auth"].deletionVersion))
}

// TestStackDeletionBlockedByFinalizer blocks a child with a finalizer: the stack names the finalizer once, and continues
// as soon as it is removed.
func TestStackDeletionBlockedByFinalizer(t *testing.T) {
	e := newDeletionStory(t)
	e.createAndWaitIdle(chainSpec)
	web := &appsv1.Deployment{ObjectMeta: e.objectMeta("shop-web")}
	e.block(web)
	e.deleteStack()
	e.waitFor("web to have no other finalizer", func(s watcher.State) bool {
		obj := s.Get(workloadResources[0], e.NS+"/shop-web")
		return obj.GetDeletionTimestamp() != nil && slices.Equal(obj.GetFinalizers(), []string{blockingFinalizer})
	})
	since := e.deployment("shop-web").DeletionTimestamp.UTC().Format(time.RFC3339)
	e.Eventually(e.condition("Ready"), "60s").Should(Equal("False/Deleting: Waiting for Deployment " + e.NS + "/shop-web to be deleted (deletion requested at " + since +
		"): blocked by finalizers example.com/theirs"))
	e.WaitIdle("shop")
	whileBlocked := e.OperatorRequestsWithin(2*time.Second, func() { e.Touch(e.deployment("shop-api"), e.deployment("shop-store")) })
	e.Expect(len(whileBlocked)).To(BeZero(), "nothing changed:\n%s", whileBlocked.Count())
	calls := e.Requests(func() {
		e.unblock(web)
		e.waitAllGone()
	})
	e.expectDeletionOrder()
	released := calls.Of("deployments.apps").Where(func(x *audit.Event) bool { return x.Verb == "update" && x.User.Username == "admin" && x.Accepted() })
	next := calls.By(operator.User).Where(func(x *audit.Event) bool { return x.Verb == "delete" })
	e.Expect(next[0].ObjectRef.Name).To(Equal("shop-api"))
	took := next[0].Received.Sub(released[0].StageTime)
	e.Expect(took).To(BeNumerically("<", time.Second))
	e.Logf("continued after %d ms", took.Milliseconds())
}

// TestFinalizerOnlyWithDependencies checks that a stack has a finalizer only while it has dependencies.
func TestFinalizerOnlyWithDependencies(t *testing.T) {
	e := newDeletionStory(t)
	stackWrites := func(calls audit.Events) audit.Events {
		return calls.Writes().Where(func(x *audit.Event) bool { return x.Resource() == "appstacks.apps.holdfast.dev" })
	}
	calls := e.OperatorRequests(func() {
		e.createAndWaitIdle(strings.NewReplacer("dependsOn: [api], ", "", "dependsOn: [auth], ", "", "dependsOn: [store], ", "").Replace(chainSpec))
	})
	e.Expect(stackWrites(calls)).To(BeEmpty())
	e.Expect(e.stack().Finalizers).To(BeEmpty())

	calls = e.OperatorRequests(func() {
		e.editComponent("web", func(c *appsapi.Component) { c.DependsOn, c.Service.Image = []string{"api"}, "shop/web:2" })
		e.waitReady()
		e.WaitIdle("shop")
	})
	e.Expect(e.stack().Finalizers).To(Equal([]string{"apps.holdfast.dev/ordered-deletion"}))
	e.Expect(stackWrites(calls)).To(HaveLen(1))
	web := calls.Writes().Of("deployments.apps").Where(func(x *audit.Event) bool { return x.ObjectRef.Name == "shop-web" })
	e.Expect(stackWrites(calls)[0].StageTime).To(BeTemporally("<", web[0].Received), "the finalizer is set before dependents are created")

	e.editComponent("web", func(c *appsapi.Component) { c.DependsOn = nil })
	e.waitReady()
	e.Eventually(func() []string { return e.stack().Finalizers }, "60s").Should(BeEmpty())
	e.WaitIdle("shop")
	calls = e.OperatorRequests(func() {
		e.deleteStack()
		e.waitAllGone()
	})
	e.Expect(len(calls.Writes())).To(BeZero(), "only the garbage collector deletes:\n%s", calls.Count())
}

// block adds a finalizer to an object.
func (e *deletionCase) block(obj client.Object) {
	e.Helper()
	harness.Edit(e.World, obj, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), blockingFinalizer)) })
}

// unblock removes the finalizer.
func (e *deletionCase) unblock(obj client.Object) {
	e.Helper()
	harness.Edit(e.World, obj, func(o client.Object) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == blockingFinalizer }))
	})
}

// delayPodTermination keeps the pods of a component terminating until release is called.
func (e *deletionCase) delayPodTermination(component string) (release func()) {
	e.Helper()
	selector := client.MatchingLabels{appsapi.DefaultKeys.Workload: "deployment-shop-" + component}
	var pods corev1.PodList
	e.Expect(e.List(e.Context(), &pods, client.InNamespace(e.NS), selector)).To(Succeed())
	for i := range pods.Items {
		e.block(&pods.Items[i])
	}
	return func() {
		e.Helper()
		for i := range pods.Items {
			e.waitFor(component+" to end", func(s watcher.State) bool {
				return s.Get(podResource, e.NS+"/"+pods.Items[i].Name).GetDeletionTimestamp() != nil
			})
		}
		time.Sleep(300 * time.Millisecond) // a dependency that does not wait for the pods would be deleted now
		for i := range pods.Items {
			e.unblock(&pods.Items[i])
		}
	}
}

// countOwnerReferences counts the children with an owner reference to a stack, without revisions.
func (e *deletionCase) countOwnerReferences(s watcher.State) int {
	n := 0
	for _, kind := range ownedResources {
		for _, obj := range s.Live(kind) {
			ref := metav1.GetControllerOfNoCopy(obj)
			if obj.GetNamespace() == e.NS && kind.Resource != "controllerrevisions" && ref != nil && ref.Kind == "AppStack" {
				n++
			}
		}
	}
	return n
}

// readyReasons returns all reasons that Ready had.
func (e *deletionCase) readyReasons() []string {
	var out []string
	for _, event := range e.watcher.History(stackResource, e.NS+"/shop") {
		conditions, _, _ := unstructured.NestedSlice(event.Object.Object, "status", "conditions")
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" {
				out = append(out, c["reason"].(string))
			}
		}
	}
	return slices.Compact(out)
}
