package appservice_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// foreignObjects are objects of another owner with the name of a child.
var foreignObjects = map[string]func(*world) client.Object{
	"Deployment": func(w *world) client.Object {
		d := &appsv1.Deployment{}
		w.decode(`
spec:
  replicas: 1
  selector: {matchLabels: {app: theirs}}
  template:
    metadata: {labels: {app: theirs}}
    spec: {containers: [{name: app, image: theirs/app:1}]}`, d)
		d.ObjectMeta = w.objectMeta()
		return d
	},
	"Service": func(w *world) client.Object {
		s := &corev1.Service{}
		w.decode(`spec: {selector: {app: theirs}, ports: [{port: 8080}]}`, s)
		s.ObjectMeta = w.objectMeta()
		return s
	},
}

func (w *world) decode(text string, into any) {
	w.Helper()
	w.Expect(yaml.UnmarshalStrict([]byte(text), into)).To(Succeed())
}

// foreignOwners are the possible owners of such an object, with the expected message.
var foreignOwners = map[string]struct {
	mark func(*world, client.Object)
	says string
}{
	"no owner": {
		mark: func(*world, client.Object) {},
		says: "exists and is not managed by Holdfast; delete it, choose another name, or allow adoption (checked again within 30 s): kubectl annotate %[1]s web -n %[2]s apps.holdfast.dev/adopt=true",
	},
	"another controller": {
		mark: setConfigMapOwner,
		says: `is controlled by ConfigMap "theirs"; rename that object or AppService "web"`,
	},
	// The cache selects on the label, so these are observed without a live read.
	"no owner, with the Holdfast label": {
		mark: func(_ *world, obj client.Object) {
			obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "holdfast"})
		},
		says: "exists and is not managed by Holdfast; delete it, choose another name, or allow adoption (checked again within 30 s): kubectl annotate %[1]s web -n %[2]s apps.holdfast.dev/adopt=true",
	},
	"another controller, with the Holdfast label": {
		mark: func(w *world, obj client.Object) {
			setConfigMapOwner(w, obj)
			obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "holdfast"})
		},
		says: `is controlled by ConfigMap "theirs"; rename that object or AppService "web"`,
	},
}

func setConfigMapOwner(w *world, obj client.Object) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "theirs"}}
	w.Expect(w.Create(w.Context(), owner)).To(Succeed())
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
}

func TestForeignObjectIsNameConflict(t *testing.T) {
	t.Parallel()
	for kind := range foreignObjects {
		for owner := range foreignOwners {
			t.Run(kind+", "+owner, func(t *testing.T) { newStory(t).reportsNameConflict(kind, owner) })
		}
	}
}

func TestCreationRacesWithForeignObject(t *testing.T) {
	t.Parallel()
	for kind := range foreignObjects {
		t.Run(kind, func(t *testing.T) { newStory(t).raceWithForeignObject(kind) })
	}
}

func TestForeignObjectReplacesChild(t *testing.T) {
	t.Parallel()
	for kind := range foreignObjects {
		t.Run(kind, func(t *testing.T) { newStory(t).foreignObjectReplacesChild(kind) })
	}
}

// reportsNameConflict creates a foreign object first: it is not changed, the status names its owner and the resolution,
// the other child is created, and once the object is deleted the application becomes ready.
func (w *world) reportsNameConflict(kind, owner string) {
	foreignObj := foreignObjects[kind](w)
	foreignOwners[owner].mark(w, foreignObj)
	w.Expect(w.Create(w.Context(), foreignObj)).To(Succeed())
	w.waitStable(foreignObj)
	uid, version := foreignObj.GetUID(), foreignObj.GetResourceVersion()

	w.create(basicSpec)
	message := foreignOwners[owner].says
	if owner == "no owner" || owner == "no owner, with the Holdfast label" {
		message = fmt.Sprintf(message, map[string]string{"Deployment": "deployment", "Service": "service"}[kind], w.NS)
	}
	want := fmt.Sprintf("False/NameConflict: %s %s/web %s", kind, w.NS, message)
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(want))
	w.Expect(w.condition("Applied")()).To(Equal(want))
	w.Expect(w.condition("Reconciling")()).To(HavePrefix("True/NameConflict"))
	w.expectOtherChildApplied(kind)

	w.WaitIdle(w.name)
	calls := w.OperatorRequestsWithin(quietPeriod) // may include a periodic check
	w.Expect(len(calls.Writes())).To(BeZero(), "writes in a conflict:\n%s", calls.Writes().Count())
	w.Expect(len(calls)).To(BeNumerically("<=", 2), "requests in a conflict:\n%s", calls.Count())
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "NameConflict"))
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(foreignObj), foreignObj)).To(Succeed())
	w.Expect(foreignObj.GetUID()).To(Equal(uid))
	w.Expect(foreignObj.GetResourceVersion()).To(Equal(version), "the foreign object was written")
	w.Expect(w.app().Status.Selector).To(Equal("app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web"),
		"the selector of foreign pods must not be in the status")
	if kind == "Deployment" {
		w.Expect(w.app().Status.Replicas).To(BeZero(), "pods of a foreign Deployment were counted")
	}

	w.Expect(w.Delete(w.Context(), foreignObj)).To(Succeed())
	// No watch covers the foreign object: the operator checks it every 15 to 20 s.
	w.Eventually(func() bool {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(foreignObj), foreignObj)
		return err == nil && foreignObj.GetUID() != uid && metav1.IsControlledBy(foreignObj, w.app())
	}, "30s", "100ms").Should(BeTrue())
	w.expectSteadyState()
}

// waitStable waits until Kubernetes controllers have written the final status of a foreign object.
func (w *world) waitStable(obj client.Object) {
	w.Helper()
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	// This reason is written together with the final counts.
	w.Eventually(func() bool {
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(d), d)).To(Succeed())
		return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentProgressing && c.Reason == "NewReplicaSetAvailable"
		})
	}, "60s", "50ms").Should(BeTrue())
	w.Expect(d.Status.AvailableReplicas).To(Equal(*d.Spec.Replicas))
}

// expectOtherChildApplied checks that a conflict of one child does not affect the other.
func (w *world) expectOtherChildApplied(kind string) {
	w.Helper()
	var other client.Object = w.service()
	if kind == "Service" {
		other = w.deployment()
	}
	w.Expect(metav1.IsControlledBy(other, w.app())).To(BeTrue(), "the other child is missing")
	w.waitStable(other)
}

// raceWithForeignObject creates the foreign object at different times around the creation of the application: the first
// one keeps the name.
func (w *world) raceWithForeignObject(kind string) {
	const tries = 24
	var group sync.WaitGroup
	for i := range tries {
		group.Go(func() {
			w := w.withName(fmt.Sprintf("web-%d", i))
			foreignObj := foreignObjects[kind](w)
			if i%4 == 0 {
				w.Expect(w.Create(w.Context(), foreignObj)).To(Succeed())
				w.create(basicSpec)
				w.expectForeignObjectKept(kind, foreignObj, nil)
				return
			}
			w.create(basicSpec)
			time.Sleep(time.Duration(i) * time.Millisecond) // offset in the race
			w.expectForeignObjectKept(kind, foreignObj, w.Create(w.Context(), foreignObj))
		})
	}
	group.Wait()
}

// expectForeignObjectKept checks the outcome of a race; err is nil if the foreign object was first.
func (w *world) expectForeignObjectKept(kind string, foreignObj client.Object, err error) {
	w.Helper()
	if apierrors.IsAlreadyExists(err) {
		w.waitReady()
		return
	}
	w.Expect(err).NotTo(HaveOccurred())
	uid := foreignObj.GetUID()
	w.Eventually(w.condition("Ready"), "60s", "100ms").Should(HavePrefix("False/NameConflict: " + kind))
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(foreignObj), foreignObj)).To(Succeed())
	w.Expect(foreignObj.GetUID()).To(Equal(uid))
	w.Expect(foreignObj.GetOwnerReferences()).To(BeEmpty())
	w.Expect(foreignObj.GetLabels()).To(BeEmpty())
	for _, m := range foreignObj.GetManagedFields() {
		w.Expect(m.Manager).NotTo(HavePrefix("holdfast"))
	}
}

// foreignObjectReplacesChild deletes a child and creates a foreign object in its place before the operator can: cached
// knowledge about the old object must not be applied to the new one.
func (w *world) foreignObjectReplacesChild(kind string) {
	w.create(basicSpec)
	w.waitReady()
	for range 5 {
		foreignObj := foreignObjects[kind](w)
		child := foreignObjects[kind](w)
		w.Expect(w.Delete(w.Context(), child, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		w.expectForeignObjectKept(kind, foreignObj, w.Create(w.Context(), foreignObj))
		if foreignObj.GetUID() == "" {
			continue
		}
		w.Expect(w.Delete(w.Context(), foreignObj)).To(Succeed())
		w.Touch(w.appAndChildren()...) // otherwise it is only checked periodically
		w.waitReady()
	}
	w.expectSteadyState()
}
