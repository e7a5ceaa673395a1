package appstack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/revision"
)

// conflictSpec is a stack with a possible name conflict for each kind of child.
const conflictSpec = `
components:
- {name: web, bindings: [{component: api}], dependsOn: [migrate], service: {image: "shop/web:1", ports: [{port: 80}]}}
- {name: api, service: {image: "shop/api:1", ports: [{port: 8080}]}}
- {name: migrate, job: {image: "shop/migrate:done"}}
- {name: lone, service: {image: "shop/lone:1"}}
`

// foreignPodTemplate is a pod template of another owner.
const foreignPodTemplate = `{metadata: {labels: {app: theirs}}, spec: {restartPolicy: %s, containers: [{name: app, image: "theirs/app:1"}]}}`

// conflictingObjects are objects of another owner with the name of a child, and the components that must become ready
// anyway. No component depends on a revision.
var conflictingObjects = map[string]struct {
	make func(w *world, app *appsapi.AppStack) client.Object
	well []string
}{
	"Deployment": {func(w *world, _ *appsapi.AppStack) client.Object {
		d := &appsv1.Deployment{ObjectMeta: w.objectMeta("shop-api")}
		w.decode(`{replicas: 0, selector: {matchLabels: {app: theirs}}, template: `+fmt.Sprintf(foreignPodTemplate, "Always")+`}`, &d.Spec)
		return d
	}, []string{"migrate", "lone"}},
	"Service": {func(w *world, _ *appsapi.AppStack) client.Object {
		return &corev1.Service{ObjectMeta: w.objectMeta("shop-api"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8080}}}}
	}, []string{"migrate", "lone"}},
	"Job": {func(w *world, app *appsapi.AppStack) client.Object {
		job, _ := w.generatedNames(app)
		j := &batchv1.Job{ObjectMeta: w.objectMeta(job)}
		w.decode(`{suspend: true, template: `+fmt.Sprintf(foreignPodTemplate, "Never")+`}`, &j.Spec)
		return j
	}, []string{"api", "lone"}},
	"ControllerRevision": {func(w *world, app *appsapi.AppStack) client.Object {
		_, name := w.generatedNames(app)
		return &appsv1.ControllerRevision{ObjectMeta: w.objectMeta(name), Data: runtime.RawExtension{Raw: []byte(`{"a":"b"}`)}}
	}, []string{"web", "api", "migrate", "lone"}},
}

func TestForeignObjectIsNameConflict(t *testing.T) {
	t.Parallel()
	for kind := range conflictingObjects {
		t.Run(kind, func(t *testing.T) { newStory(t).reportsNameConflict(kind, nil) })
	}
	t.Run("ControllerRevision with the Holdfast label", func(t *testing.T) {
		newStory(t).reportsNameConflict("ControllerRevision", map[string]string{"app.kubernetes.io/managed-by": "holdfast"})
	})
}

func (w *world) decode(text string, into any) {
	w.Helper()
	w.Expect(yaml.UnmarshalStrict([]byte(text), into)).To(Succeed())
}

// generatedNames returns the names of the Job of migrate and of the revision of a stack.
func (w *world) generatedNames(app *appsapi.AppStack) (job, revisionName string) {
	w.Helper()
	owner := desired.Owner{Keys: appsapi.DefaultKeys, Namespace: w.NS, Name: app.Name, UID: app.UID}
	for _, c := range desired.Build(owner, desired.ExpandComponents(app.Spec.Components), desired.ClusterState{}) {
		if c.Name == "migrate" {
			job = c.Workload.Name
		}
	}
	snapshot, err := revision.Encode(appsapi.AppStackSpec{Components: app.Spec.Components})
	w.Expect(err).NotTo(HaveOccurred())
	return job, desired.RevisionName(owner, snapshot.Hash)
}

// reportsNameConflict creates a foreign object first: the status names it, it is not changed, its dependents wait, other
// components run, and once it is deleted the stack becomes ready.
func (w *world) reportsNameConflict(kind string, labels map[string]string) {
	app := w.create("suspend: true" + conflictSpec) // the name of a revision depends on the UID of the stack
	foreign := conflictingObjects[kind].make(w, app)
	foreign.SetLabels(labels)
	w.Expect(w.Create(w.Context(), foreign)).To(Succeed())
	uid := foreign.GetUID()

	w.editSpec(func(s *appsapi.AppStackSpec) { s.Suspend = false })
	want := fmt.Sprintf("False/NameConflict: %s %s/%s exists and is not managed by Holdfast; delete it, choose another name, or allow adoption (checked again within 30 s): "+
		"kubectl annotate %s %s -n %s apps.holdfast.dev/adopt=true", kind, w.NS, foreign.GetName(), strings.ToLower(kind), foreign.GetName(), w.NS)
	w.Eventually(w.condition("Ready"), "60s", "20ms").Should(Equal(want))
	w.Expect(w.condition("Applied")()).To(Equal(want))
	w.Eventually(func() []string { return w.healthyComponents() }, "60s", "50ms").Should(ContainElements(conflictingObjects[kind].well), "other components become ready")
	w.WaitIdle("shop")
	// The operator checks again every 15 to 20 s, maybe just now, but not twice in a row.
	w.Eventually(func() string {
		calls := w.OperatorRequestsWithin(1500 * time.Millisecond)
		if len(childWrites(calls)) == 0 && len(calls.Reads()) <= 2 {
			return ""
		}
		return calls.Count().String()
	}, "4s", "1ms").Should(BeEmpty())
	w.Expect(w.healthyComponents()).To(ConsistOf(conflictingObjects[kind].well))
	w.Expect(w.deployment("shop-web") == nil).To(Equal(kind != "ControllerRevision"), "dependents wait")
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	w.Expect(foreign.GetUID()).To(Equal(uid))
	for _, m := range foreign.GetManagedFields() {
		w.Expect(m.Manager).NotTo(HavePrefix("holdfast"), "the foreign object was written")
	}
	w.Expect(w.Events("AppStack", "shop")).To(ContainElement("NameConflict"))

	w.Expect(w.Delete(w.Context(), foreign, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	w.waitConflictResolved()
	w.waitReady()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	w.Expect(metav1.IsControlledBy(foreign, w.stack())).To(BeTrue())
	w.expectSteadyState()
}

// waitConflictResolved triggers the operator until there is no conflict. It would check only every 15 to 20 s.
func (w *world) waitConflictResolved() {
	w.Helper()
	w.Eventually(func() string {
		w.Touch(&appsapi.AppStack{ObjectMeta: w.objectMeta("shop")})
		return w.condition("Ready")()
	}, "60s", "500ms").ShouldNot(HavePrefix("False/NameConflict"))
}

// healthyComponents returns the ready components.
func (w *world) healthyComponents() []string {
	var out []string
	for _, c := range w.stack().Status.Components {
		if c.Health == "Healthy" {
			out = append(out, c.Name)
		}
	}
	return out
}

// TestOrphanOfPreviousStackIsNameConflict deletes a stack and keeps its children. A new stack of the same name adopts
// them only with the annotation, and has its own history.
func TestOrphanOfPreviousStackIsNameConflict(t *testing.T) {
	w := newStory(t)
	w.create(twoServicesSpec)
	w.waitReady()
	w.WaitIdle("shop")
	uid, before := w.deployment("shop-web").UID, w.revisions()[0]
	w.Expect(w.Delete(w.Context(), w.stack(), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func() bool { return w.stack() == nil }, "60s", "50ms").Should(BeTrue())
	w.Eventually(func() int { return len(w.revisions()[0].OwnerReferences) }, "60s", "50ms").Should(BeZero())
	version := w.revisions()[0].ResourceVersion

	w.create(twoServicesSpec)
	w.Eventually(w.condition("Ready"), "60s", "50ms").Should(HavePrefix(fmt.Sprintf(
		`False/NameConflict: Deployment %s/shop-web was created by another AppStack "shop"`, w.NS)))
	w.WaitIdle("shop")
	for _, name := range []string{"shop-web", "shop-api"} {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"apps.holdfast.dev/adopt":"true"}}}`))
		w.Expect(w.Patch(w.Context(), w.deployment(name), patch)).To(Succeed())
	}
	w.waitConflictResolved()
	w.waitReady()
	w.Expect(w.deployment("shop-web").UID).To(Equal(uid))
	w.Expect(w.deploymentRevisions()).To(Equal(map[string]string{"shop-web": "1", "shop-api": "1"}))
	w.Expect(w.revisionNumbers()).To(Equal([]string{"1h", "1h"}), "a separate history")
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(&before), &before)).To(Succeed())
	w.Expect(before.ResourceVersion).To(Equal(version), "the history of another stack is not written")
	w.expectSteadyState()
}
