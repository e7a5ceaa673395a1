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
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

// Stacks that end.
const (
	// diamondSpec goes up from store: auth beside migrate and api, then web and report.
	diamondSpec = `
components:
- {name: web, dependsOn: [auth], bindings: [{component: api}], service: {image: "shop/web:1", ports: [{port: 80, targetPort: 8080}]}}
- {name: report, dependsOn: [api], job: {image: "shop/report:done", schedule: "0 0 1 1 *"}}
- {name: api, dependsOn: [migrate], service: {image: "shop/api:1", replicas: 2, ports: [{port: 8080}]}}
- {name: auth, bindings: [{component: store}], service: {image: "shop/auth:1"}}
- {name: migrate, bindings: [{component: store}], job: {image: "shop/migrate:done"}}
- {name: store, service: {image: "shop/store:1", ports: [{port: 5432}]}}
`
	// chainSpec goes up from store, too, one after the other.
	chainSpec = `
components:
- {name: web, dependsOn: [api], service: {image: "shop/web:1", ports: [{port: 80, targetPort: 8080}]}}
- {name: api, dependsOn: [auth], service: {image: "shop/api:1"}}
- {name: auth, dependsOn: [store], service: {image: "shop/auth:1"}}
- {name: store, service: {image: "shop/store:1"}}
`
	// singleServiceSpec has nobody who could need it.
	singleServiceSpec = `
components:
- {name: lone, service: {image: "shop/lone:1"}}
`
)

// deletionStories are stories about the end of a stack, by name.
var deletionStories = map[string]func(*deletionCase){}

func init() {
	behaviors["works"] = podsim.Ready() // a job that does not come to its end
	stories["deletion"] = func(w *world) {
		eye := startDeletionWatcher(w.T, w.Harness)
		for name, story := range deletionStories {
			w.Run(name, func(t *testing.T) {
				t.Parallel()
				story(&deletionCase{world: newWorld(t, w.Harness), watcher: eye})
			})
		}
	}
}

// skipUnlessLong skips what takes its time.
func skipUnlessLong(t *testing.T) {
	t.Helper()
	if os.Getenv("HOLDFAST_LONG") == "" {
		t.Skip("takes its time: HOLDFAST_LONG=1 runs it")
	}
}

// How a stack is deleted.
func init() {
	deletionStories["background"] = (*deletionCase).backgroundDeletion
	deletionStories["foreground"] = func(e *deletionCase) {
		e.createAndWaitIdle(diamondSpec)
		calls := e.OperatorRequests(func() {
			e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationForeground))
			e.waitAllGone()
		})
		e.Expect(e.childWritesAfterDeletion(calls)).To(BeEmpty())
	}
	deletionStories["orphan"] = (*deletionCase).orphanDeletion
	deletionStories["with its namespace"] = func(e *deletionCase) {
		e.createAndWaitIdle(diamondSpec)
		e.deleteEnclosing(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.NS}})
	}
	deletionStories["and create at once"] = func(e *deletionCase) {
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
	deletionStories["blocked"] = (*deletionCase).blockedByFinalizer
	deletionStories["finalizer"] = (*deletionCase).finalizerOnlyWithDependencies
}

// What order it goes in: that of what exists.
func init() {
	order := []string{"web", "api", "auth", "store"}
	deletionStories["against the spec"] = func(e *deletionCase) {
		e.createAndWaitIdle(chainSpec)
		e.reverseDependencies("shop/store:never")
		e.Eventually(e.condition("Ready"), "60s").Should(HavePrefix("False/WaitingForDependency"))
		e.Expect(e.deleteAndExpectOrder()).To(Equal(order), "the change was held back")
	}
	deletionStories["against a spec of this moment"] = func(e *deletionCase) {
		e.createAndWaitIdle(chainSpec)
		e.reverseDependencies("shop/store:1")
		e.deleteStack()
		e.waitAllGone()
		e.expectDeletionOrder()
	}
	deletionStories["in spite of an invalid spec"] = func(e *deletionCase) {
		e.createAndWaitIdle(chainSpec)
		e.editComponent("store", func(c *appsapi.Component) { c.DependsOn = []string{"web"} })
		e.Eventually(e.condition("Stalled"), "60s").Should(HavePrefix("True/InvalidSpec"))
		e.Expect(e.deleteAndExpectOrder()).To(Equal(order))
	}
	deletionStories["in a circle"] = (*deletionCase).cyclicDependencies
}

// When it is deleted.
func init() {
	deletionStories["while suspended"] = func(e *deletionCase) {
		e.createAndWaitIdle(chainSpec)
		e.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = true })
		e.Eventually(e.condition("Ready"), "60s").Should(HavePrefix("True/Suspended"))
		e.deleteAndExpectOrder()
	}
	deletionStories["while a job works"] = func(e *deletionCase) {
		e.create(strings.Replace(diamondSpec, "shop/migrate:done", "shop/migrate:works", 1))
		e.waitFor("the job to work", func(s watcher.State) bool {
			return slices.ContainsFunc(s.Live(podResource), func(p *unstructured.Unstructured) bool {
				phase, _, _ := unstructured.NestedString(p.Object, "status", "phase")
				return p.GetNamespace() == e.NS && phase == "Running" && p.GetLabels()["batch.kubernetes.io/job-name"] != ""
			})
		})
		e.WaitIdle("shop")
		e.Expect(e.deleteAndExpectOrder()).To(ConsistOf("auth", "migrate", "store"), "api was never made")
	}
	deletionStories["in the middle of the first rollout"] = func(e *deletionCase) {
		e.create(strings.Replace(diamondSpec, "shop/api:1", "shop/api:never", 1))
		e.Eventually(func() *appsv1.Deployment { return e.deployment("shop-api") }, "60s").ShouldNot(BeNil())
		e.WaitIdle("shop")
		e.Expect(e.deleteAndExpectOrder()).To(ConsistOf("api", "auth", "migrate", "store"), "those that wait for api were never made")
	}
	for _, after := range []time.Duration{0, 20, 50, 100, 200, 400, 800, 1600, 3200} {
		deletionStories[fmt.Sprintf("after %d ms", after)] = func(e *deletionCase) {
			if after%400 != 0 {
				skipUnlessLong(e.T)
			}
			first := newWorld(e.T, e.Harness) // by then everybody knows the kind
			first.create(singleServiceSpec)
			first.waitReady()
			e.create(diamondSpec)
			time.Sleep(after * time.Millisecond)
			e.deleteStack()
			e.waitAllGone()
			// One that is deleted in the moment it gets its finalizer goes at once: the API
			// server looks for finalizers before it deletes, not again while it does.
			if slices.ContainsFunc(e.watcher.History(stackResource, e.NS+"/shop"), func(x watcher.Event) bool {
				return x.Type == watch.Modified && x.Object.GetDeletionTimestamp() != nil
			}) {
				e.expectDeletionOrder()
			}
		}
	}
}

// backgroundDeletion deletes each child once, the first ones with pods that take their time.
func (e *deletionCase) backgroundDeletion() {
	calls := e.OperatorRequests(func() { e.createAndWaitIdle(diamondSpec) })
	e.Expect(calls.Writes()[0].Resource()).To(Equal("appstacks.apps.holdfast.dev"), "the finalizer comes first:\n%s", calls.Count())
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
	e.Expect(e.Events("AppStack", "shop")).NotTo(ContainElement("Deleting"), "somebody asked for it")
}

// orphanDeletion deletes the stack and keeps everything else. A new one of the same name leaves
// it alone, too.
func (e *deletionCase) orphanDeletion() {
	e.createAndWaitIdle(diamondSpec)
	before := e.ownedObjects(e.watcher.State())
	calls := e.OperatorRequests(func() {
		e.deleteStack(client.PropagationPolicy(metav1.DeletePropagationOrphan))
		e.waitStackGone()
		e.Logf("orphaned after %.1f s", time.Since(e.deletedAt).Seconds())
		e.waitFor("the references to go", func(s watcher.State) bool { return e.countOwnerReferences(s) == 0 })
		e.Touch(e.deployment("shop-web"), e.service("shop-web"), &e.jobs("migrate")[0])
		time.Sleep(time.Second) // there is no event for nothing happening
	}).Writes()
	e.Expect(e.ownedObjects(e.watcher.State())).To(Equal(before))
	e.Expect(len(calls)).To(Equal(len(calls.Of("appstacks.apps.holdfast.dev"))), "the finalizer goes, nothing else:\n%s", calls.Count())

	calls = e.OperatorRequests(func() {
		e.create(diamondSpec)
		e.Eventually(e.condition("Ready"), "60s").Should(Equal("False/NameConflict: Deployment " + e.NS +
			`/shop-web was left behind by another AppStack "shop", so it is left alone; delete it, choose another name, or hand it over: ` +
			"kubectl annotate deployment shop-web -n " + e.NS + " apps.holdfast.dev/adopt=true"))
	}).Writes().Where((*audit.Event).Accepted)
	e.Expect(e.countOwnerReferences(e.watcher.State())).To(BeZero())
	after := e.ownedObjects(e.watcher.State())
	for key, uid := range before {
		e.Expect(after).To(HaveKeyWithValue(key, uid))
	}
	e.Expect(calls.Of("deployments.apps", "services", "jobs.batch", "cronjobs.batch")).To(BeEmpty())
	for _, call := range calls.Of("controllerrevisions.apps") {
		e.Expect(call.Verb).To(Equal("create"), "what the other one remembered is not for us to change")
	}
}

// reverseDependencies makes the spec say the opposite of what web and api are to each other.
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

// cyclicDependencies is what edits can make of what runs: while web may not be touched, api gets to
// need it. Nobody can be the first of the two, but auth goes after api.
func (e *deletionCase) cyclicDependencies() {
	e.createAndWaitIdle(chainSpec)
	e.editComponent("web", func(c *appsapi.Component) { c.Suspend, c.DependsOn = true, nil })
	e.editComponent("api", func(c *appsapi.Component) { c.DependsOn = []string{"auth", "web"} })
	e.Eventually(func() string { return e.deployment("shop-api").Annotations["apps.holdfast.dev/depends-on"] }, "60s").Should(Equal("auth,web"))
	e.Expect(e.deployment("shop-web").Annotations).To(HaveKeyWithValue("apps.holdfast.dev/depends-on", "api"))
	e.deleteStack()
	e.waitAllGone()
	timelines := e.workloadTimelines()
	e.Expect(timelines["deployment-shop-api"].goneVersion).To(BeNumerically("<", timelines["deployment-shop-auth"].deletionVersion))
}

// blockedByFinalizer lets somebody hold a child: the stack says whom to ask, once, and goes on as soon
// as it is let go.
func (e *deletionCase) blockedByFinalizer() {
	e.createAndWaitIdle(chainSpec)
	web := &appsv1.Deployment{ObjectMeta: e.objectMeta("shop-web")}
	e.block(web)
	e.deleteStack()
	e.waitFor("web to be held by nobody else", func(s watcher.State) bool {
		obj := s.Get(workloadResources[0], e.NS+"/shop-web")
		return obj.GetDeletionTimestamp() != nil && slices.Equal(obj.GetFinalizers(), []string{blockingFinalizer})
	})
	since := e.deployment("shop-web").DeletionTimestamp.UTC().Format(time.RFC3339)
	e.Eventually(e.condition("Ready"), "60s").Should(Equal("False/Deleting: Deployment " + e.NS + "/shop-web is being deleted since " + since +
		" and waits for the finalizers example.com/theirs"))
	e.WaitIdle("shop")
	whileBlocked := e.OperatorRequests(func() {
		e.Touch(e.deployment("shop-api"), e.deployment("shop-store"))
		time.Sleep(2 * time.Second) // there is no event for nothing happening
	})
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
	e.Logf("went on after %d ms", took.Milliseconds())
}

// finalizerOnlyWithDependencies is there only while there is an order to keep.
func (e *deletionCase) finalizerOnlyWithDependencies() {
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
	e.Expect(stackWrites(calls)[0].StageTime).To(BeTemporally("<", web[0].Received), "the finalizer comes before what needs it")

	e.editComponent("web", func(c *appsapi.Component) { c.DependsOn = nil })
	e.waitReady()
	e.Eventually(func() []string { return e.stack().Finalizers }, "60s").Should(BeEmpty())
	e.WaitIdle("shop")
	calls = e.OperatorRequests(func() {
		e.deleteStack()
		e.waitAllGone()
	})
	e.Expect(len(calls.Writes())).To(BeZero(), "the garbage collector does it alone:\n%s", calls.Count())
}

// block lets somebody else keep an object.
func (e *deletionCase) block(obj client.Object) {
	e.Helper()
	harness.Edit(e.World, obj, func(o client.Object) { o.SetFinalizers(append(o.GetFinalizers(), blockingFinalizer)) })
}

// unblock lets it go.
func (e *deletionCase) unblock(obj client.Object) {
	e.Helper()
	harness.Edit(e.World, obj, func(o client.Object) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == blockingFinalizer }))
	})
}

// delayPodTermination keeps the pods of a component from ending until a moment after they should have.
func (e *deletionCase) delayPodTermination(component string) (release func()) {
	e.Helper()
	selector := client.MatchingLabels{appsapi.LabelWorkload: "deployment-shop-" + component}
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
		time.Sleep(300 * time.Millisecond) // there is no event for nothing happening
		for i := range pods.Items {
			e.unblock(&pods.Items[i])
		}
	}
}

// countOwnerReferences counts the children that belong to a stack; what it remembers does not count.
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

// readyReasons are all that Ready ever gave.
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
