package appservice_test

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// foreignObjects objects have the name of a child and are somebody else's.
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

// foreignOwners are the ways in which such an object can be somebody else's, and what is said
// about it.
var foreignOwners = map[string]struct {
	mark func(*world, client.Object)
	says string
}{
	"nobody's": {
		mark: func(*world, client.Object) {},
		says: "exists and is not Holdfast's, so it is left alone; delete it, choose another name, or hand it over: kubectl annotate %[1]s web -n %[2]s apps.holdfast.dev/adopt=true",
	},
	"another controller's": {
		mark: setConfigMapOwner,
		says: `belongs to ConfigMap "theirs" and is left alone; rename AppService "web", or that one`,
	},
	// Our caches select on the label, so these are seen without a read.
	"nobody's with our label": {
		mark: func(_ *world, obj client.Object) {
			obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "holdfast"})
		},
		says: "exists and is not Holdfast's, so it is left alone; delete it, choose another name, or hand it over: kubectl annotate %[1]s web -n %[2]s apps.holdfast.dev/adopt=true",
	},
	"another controller's with our label": {
		mark: func(w *world, obj client.Object) {
			setConfigMapOwner(w, obj)
			obj.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "holdfast"})
		},
		says: `belongs to ConfigMap "theirs" and is left alone; rename AppService "web", or that one`,
	},
}

func setConfigMapOwner(w *world, obj client.Object) {
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "theirs"}}
	w.Expect(w.Create(w.Context(), owner)).To(Succeed())
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))})
}

func init() {
	for kind := range foreignObjects {
		for owner := range foreignOwners {
			stories[fmt.Sprintf("foreign %s, %s", kind, owner)] = func(w *world) { w.reportsNameConflict(kind, owner) }
		}
		stories["foreign "+kind+" in a race"] = func(w *world) { w.raceWithForeignObject(kind) }
		stories["foreign "+kind+" takes the place of a child"] = func(w *world) { w.foreignObjectReplacesChild(kind) }
	}
}

// reportsNameConflict tells of a foreign object that was there first: it stays as it is, the status
// says whose it is and what to do, the other child runs, and when the object goes the
// application comes up.
func (w *world) reportsNameConflict(kind, owner string) {
	foreignObj := foreignObjects[kind](w)
	foreignOwners[owner].mark(w, foreignObj)
	w.Expect(w.Create(w.Context(), foreignObj)).To(Succeed())
	w.waitStable(foreignObj)
	uid, version := foreignObj.GetUID(), foreignObj.GetResourceVersion()

	w.create(basicSpec)
	message := foreignOwners[owner].says
	if owner == "nobody's" || owner == "nobody's with our label" {
		message = fmt.Sprintf(message, map[string]string{"Deployment": "deployment", "Service": "service"}[kind], w.NS)
	}
	want := fmt.Sprintf("False/NameConflict: %s %s/web %s", kind, w.NS, message)
	w.Eventually(w.condition("Ready"), "60s").Should(Equal(want))
	w.Expect(w.condition("Applied")()).To(Equal(want))
	w.Expect(w.condition("Reconciling")()).To(HavePrefix("True/NameConflict"))
	w.expectOtherChildApplied(kind)

	w.WaitIdle(w.name)
	calls := w.OperatorRequests(func() { time.Sleep(quietPeriod) }) // in the long run more than between two looks
	w.Expect(len(calls.Writes())).To(BeZero(), "writes in a conflict:\n%s", calls.Writes().Count())
	w.Expect(len(calls)).To(BeNumerically("<=", 2), "looks in a conflict:\n%s", calls.Count())
	w.Expect(w.events()).To(ConsistOf("ComponentCreated", "NameConflict"))
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(foreignObj), foreignObj)).To(Succeed())
	w.Expect(foreignObj.GetUID()).To(Equal(uid))
	w.Expect(foreignObj.GetResourceVersion()).To(Equal(version), "the foreign object was written")
	w.Expect(w.app().Status.Selector).To(Equal("app.kubernetes.io/managed-by=holdfast,apps.holdfast.dev/workload=deployment-web"),
		"the selector of foreign pods is nothing that an autoscaler of ours may read")
	if kind == "Deployment" {
		w.Expect(w.app().Status.Replicas).To(BeZero(), "pods of a foreign Deployment were counted")
	}

	w.Expect(w.Delete(w.Context(), foreignObj)).To(Succeed())
	// No watch of ours shows that: it is looked at every 15 to 20 s.
	w.Eventually(func() bool {
		err := w.Get(w.Context(), client.ObjectKeyFromObject(foreignObj), foreignObj)
		return err == nil && foreignObj.GetUID() != uid && metav1.IsControlledBy(foreignObj, w.app())
	}, "30s", "100ms").Should(BeTrue())
	w.expectSteadyState()
}

// waitStable waits until the controllers of Kubernetes have written the status of a
// foreign object for the last time.
func (w *world) waitStable(obj client.Object) {
	w.Helper()
	d, ok := obj.(*appsv1.Deployment)
	if !ok {
		return
	}
	w.Eventually(func() int32 {
		w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(d), d)).To(Succeed())
		return d.Status.AvailableReplicas
	}, "60s", "50ms").Should(BeNumerically("==", *d.Spec.Replicas))
	time.Sleep(200 * time.Millisecond) // the last condition may follow
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(d), d)).To(Succeed())
}

// expectOtherChildApplied says that a conflict of one child does not hold up the other.
func (w *world) expectOtherChildApplied(kind string) {
	w.Helper()
	var other client.Object = w.service()
	if kind == "Service" {
		other = w.deployment()
	}
	w.Expect(metav1.IsControlledBy(other, w.app())).To(BeTrue(), "the other child is missing")
	w.waitStable(other)
}

// raceWithForeignObject creates the foreign object at many moments around the creation of the
// application: whoever was first keeps the name.
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
			time.Sleep(time.Duration(i) * time.Millisecond)
			w.expectForeignObjectKept(kind, foreignObj, w.Create(w.Context(), foreignObj))
		})
	}
	group.Wait()
}

// expectForeignObjectKept checks the outcome of a race, which err tells: nil means that the foreign
// object was first.
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

// foreignObjectReplacesChild deletes a child and puts a foreign object in its place before the operator
// can: what is known about the old one must not be used against the new one.
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
		w.Touch(w.appAndChildren()...) // otherwise it is only looked at now and then
		w.waitReady()
	}
	w.expectSteadyState()
}
