package environment

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// immutableSpec has a Service and a StatefulSet, which have many immutable fields.
const immutableSpec = `
components:
- {name: db, stateful: {image: "shop/db:1", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi, className: standard}]}}
- {name: web, service: {image: "shop/web:1", ports: [{port: 80}]}}
`

// immutableCase is a change of an immutable field.
type immutableCase struct {
	// edit changes the spec; manualChange replaces an object.
	edit         func(*appsapi.AppStackSpec)
	manualChange func(*world, string)
	// wantRejection is the error of the API server.
	wantRejection string
	// wantReady are fragments of the Ready condition; undo reverts the edit.
	wantReady []string
	undo      func(*appsapi.AppStackSpec)
}

func setServiceType(to appsapi.ServiceType) func(*appsapi.AppStackSpec) {
	return func(s *appsapi.AppStackSpec) { s.Components[1].Service.Service.Type = to }
}

func editStateful(change func(*appsapi.StatefulComponent)) func(*appsapi.AppStackSpec) {
	return func(s *appsapi.AppStackSpec) { change(s.Components[0].Stateful) }
}

const reconciled = "True/Reconciled"

var immutableCases = map[string]immutableCase{
	"nodeport":     {edit: setServiceType(appsapi.ServiceNodePort), wantReady: []string{reconciled}},
	"loadbalancer": {edit: setServiceType(appsapi.ServiceLoadBalancer), wantReady: []string{reconciled}},
	"headless":     {edit: setServiceType(appsapi.ServiceHeadless), wantRejection: "cannot change to or from type Headless"},
	"class": {edit: editStateful(func(c *appsapi.StatefulComponent) { c.Storage[0].ClassName = new(volsim.Full) }),
		wantReady: []string{"False/StorageChangeRejected", "which cannot be changed to"}, undo: editStateful(func(c *appsapi.StatefulComponent) { c.Storage[0].ClassName = new(volsim.Standard) })},
	"accessmode": {edit: editStateful(func(c *appsapi.StatefulComponent) { c.Storage[0].AccessMode = corev1.ReadWriteMany }),
		wantReady: []string{"False/StorageChangeRejected", "which cannot be changed"}, undo: editStateful(func(c *appsapi.StatefulComponent) { c.Storage[0].AccessMode = "" })},
	"volumes": {edit: editStateful(func(c *appsapi.StatefulComponent) {
		c.Storage = append(c.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	}), wantReady: []string{"False/StorageChangeRejected", "volumes cannot be added or removed"}, undo: editStateful(func(c *appsapi.StatefulComponent) { c.Storage = c.Storage[:1] })},
	"templates": {edit: editStateful(func(c *appsapi.StatefulComponent) { c.Storage[0].Size = resource.MustParse("2Gi") }), wantReady: []string{reconciled}},
	"clusterip": {manualChange: func(w *world, name string) {
		recreateForAdoption(w, &corev1.Service{ObjectMeta: w.objectMeta(name + "-web")}, func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, nil
		})
	}, wantReady: []string{"False/", "its spec.clusterIP cannot change"}},
	"selector": adoptedStatefulSet("its spec.selector is not", func(s *appsv1.StatefulSetSpec) {
		s.Selector.MatchLabels["their"], s.Template.Labels["their"] = "label", "label"
	}),
	"servicename": adoptedStatefulSet("its spec.serviceName is not", func(s *appsv1.StatefulSetSpec) { s.ServiceName = "theirs" }),
}

// adoptedStatefulSet is a StatefulSet of another owner with different fields that is handed over.
func adoptedStatefulSet(message string, change func(*appsv1.StatefulSetSpec)) immutableCase {
	return immutableCase{wantReady: []string{"False/", message}, manualChange: func(w *world, name string) {
		recreateForAdoption(w, &appsv1.StatefulSet{ObjectMeta: w.objectMeta(name + "-db")}, func(s *appsv1.StatefulSet) { change(&s.Spec) })
	}}
}

// recreateForAdoption replaces an object of the operator with one that its owner hands over.
func recreateForAdoption[T client.Object](w *world, obj T, change func(T)) {
	w.Helper()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	change(obj)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetAnnotations(map[string]string{appsapi.DefaultKeys.Adopt: "true"})
	// Retry: the operator may recreate its object first.
	w.Eventually(func() error {
		old := obj.DeepCopyObject().(client.Object)
		if err := w.Delete(w.Context(), old, client.PropagationPolicy(metav1.DeletePropagationOrphan)); client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.Create(w.Context(), obj.DeepCopyObject().(client.Object))
	}, "30s", "1ms").Should(Succeed())
}

// TestImmutableFields changes immutable fields. Each change must be applied as designed or rejected with a reason,
// without endless retries, and allocated resources must stay.
func TestImmutableFields(t *testing.T) {
	w, row := newWorld(t, "16 immutable fields")
	names := slices.Sorted(maps.Keys(immutableCases))
	row.Generated = len(names)
	maxWrites := 0
	for _, name := range names {
		w.createStack(name, immutableSpec)
	}
	for _, name := range names {
		w.waitReady(name)
		w.WaitIdle(name)
	}
	for _, name := range names {
		if !w.Run(name, func(t *testing.T) {
			maxWrites = max(maxWrites, w.forSubtest(t).tryImmutableChange(name, immutableCases[name]))
		}) {
			row.Failed++
		}
		row.Run++
	}
	row.Measured = fmt.Sprintf("%d changes of immutable fields: applied as designed or rejected with a reason; at most %d writes to a child in %s; allocated addresses and ports did not change",
		row.Run, maxWrites, observationPeriod)
}

// observationPeriod is the time in which retries are counted.
var observationPeriod = sampleOrFull(time.Second, 5*time.Second)

// tryImmutableChange runs a case and returns the number of writes to children after the outcome is known.
func (w *world) tryImmutableChange(name string, a immutableCase) int {
	before := w.allocations(name)
	if a.manualChange != nil {
		a.manualChange(w, name)
	}
	if a.edit != nil {
		err := w.editStack(name, a.edit)
		if a.wantRejection != "" {
			w.Expect(err).To(MatchError(ContainSubstring(a.wantRejection)))
			w.Expect(w.allocations(name)).To(Equal(before))
			return 0
		}
		w.Expect(err).NotTo(HaveOccurred())
	}
	w.provisionLoadBalancer(name)
	app := &appsapi.AppStack{ObjectMeta: w.objectMeta(name)}
	for _, text := range a.wantReady {
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "40s").Should(ContainSubstring(text))
	}
	w.WaitIdle(name)
	calls := w.OperatorRequestsWithin(observationPeriod).Writes().Where(func(e *audit.Event) bool {
		return strings.HasPrefix(e.ObjectRef.Name, name) && e.ObjectRef.Resource != "appstacks" && e.ObjectRef.Resource != "events"
	})
	w.Expect(len(calls)).To(BeNumerically("<=", 3), "%s", calls.Count())
	if a.undo != nil {
		w.Expect(w.editStack(name, a.undo)).To(Succeed())
		w.waitReady(name)
	}
	if a.manualChange == nil {
		w.expectAllocationsKept(name, before)
	}
	return len(calls)
}

func (w *world) editStack(name string, edit func(*appsapi.AppStackSpec)) error {
	app := w.getStack(name)
	before := app.DeepCopy()
	edit(&app.Spec)
	return w.Patch(w.Context(), app, client.MergeFrom(before))
}

// provisionLoadBalancer simulates the load balancer of a Service.
func (w *world) provisionLoadBalancer(name string) {
	w.Helper()
	if w.getStack(name).Spec.Components[1].Service.Service.Type != appsapi.ServiceLoadBalancer {
		return
	}
	service := &corev1.Service{ObjectMeta: w.objectMeta(name + "-web")}
	w.Eventually(func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(service), service); err != nil {
			return err
		}
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return fmt.Errorf("type is %s", service.Spec.Type)
		}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		return w.Status().Update(w.Context(), service)
	}, "30s").Should(Succeed())
}

// allocations returns the resources that Kubernetes allocated: addresses, ports, pods, volumes.
func (w *world) allocations(name string) map[string]string {
	out := map[string]string{}
	for _, s := range []string{"-web", "-db"} {
		service := harness.Find(w.World, &corev1.Service{ObjectMeta: w.objectMeta(name + s)})
		out["address of "+name+s] = service.Spec.ClusterIP
		if port := service.Spec.Ports[0].NodePort; port != 0 {
			out["port of "+name+s] = fmt.Sprint(port)
		}
	}
	var claim corev1.PersistentVolumeClaim
	w.Expect(w.Get(w.Context(), types.NamespacedName{Namespace: w.NS, Name: "data-" + name + "-db-0"}, &claim)).To(Succeed())
	out["claim"] = string(claim.UID)
	for _, pod := range w.podsOfStack(name) {
		out[pod] = ""
	}
	return out
}

// expectAllocationsKept checks that allocations did not change, also through further changes of the Service type.
func (w *world) expectAllocationsKept(name string, before map[string]string) {
	w.Helper()
	after := w.allocations(name)
	for key, value := range before {
		w.Expect(after).To(HaveKeyWithValue(key, value))
	}
	if !strings.Contains(name, "nodeport") && !strings.Contains(name, "loadbalancer") {
		return
	}
	for _, to := range []appsapi.ServiceType{appsapi.ServiceLoadBalancer, appsapi.ServiceNodePort} {
		w.Expect(w.editStack(name, setServiceType(to))).To(Succeed())
		w.provisionLoadBalancer(name)
		w.waitReady(name)
		w.Expect(w.allocations(name)).To(Equal(after), string(to))
	}
	w.Expect(w.editStack(name, setServiceType(appsapi.ServiceClusterIP))).To(Succeed())
	w.waitReady(name)
	w.Expect(w.allocations(name)).To(Equal(before))
}
