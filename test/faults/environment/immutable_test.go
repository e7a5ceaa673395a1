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
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
	"github.com/holdfast-dev/holdfast/test/faults/report"
)

func init() { together["16 immutable fields"] = immutable }

// fixedStack has a Service and a StatefulSet, whose fields often cannot change.
const fixedStack = `
components:
- {name: db, stateful: {image: "shop/db:1", ports: [{port: 3306}], storage: [{name: data, mountPath: /data, size: 1Gi, className: standard}]}}
- {name: web, service: {image: "shop/web:1", ports: [{port: 80}]}}
`

// attempt is a change of what Kubernetes does not let change, or only some of it.
type attempt struct {
	// edit changes the spec; hand makes everything be made anew, or by others.
	edit func(*appsapi.AppStackSpec)
	hand func(*world, string)
	// denied is what the API server says to the user at once.
	denied string
	// says is how the condition begins, and what it has in it; back undoes it.
	says []string
	back func(*appsapi.AppStackSpec)
}

func serviceType(to appsapi.ServiceType) func(*appsapi.AppStackSpec) {
	return func(s *appsapi.AppStackSpec) { s.Components[1].Service.Service.Type = to }
}

func storage(change func(*appsapi.StatefulComponent)) func(*appsapi.AppStackSpec) {
	return func(s *appsapi.AppStackSpec) { change(s.Components[0].Stateful) }
}

const fine = "True/Reconciled"

var attempts = map[string]attempt{
	"nodeport":     {edit: serviceType(appsapi.ServiceNodePort), says: []string{fine}},
	"loadbalancer": {edit: serviceType(appsapi.ServiceLoadBalancer), says: []string{fine}},
	"headless":     {edit: serviceType(appsapi.ServiceHeadless), denied: "cannot become Headless"},
	"class": {edit: storage(func(c *appsapi.StatefulComponent) { c.Storage[0].ClassName = new(volsim.Full) }),
		says: []string{"False/StorageRefused", "cannot move to"}, back: storage(func(c *appsapi.StatefulComponent) { c.Storage[0].ClassName = new(volsim.Standard) })},
	"accessmode": {edit: storage(func(c *appsapi.StatefulComponent) { c.Storage[0].AccessMode = corev1.ReadWriteMany }),
		says: []string{"False/StorageRefused", "which cannot change"}, back: storage(func(c *appsapi.StatefulComponent) { c.Storage[0].AccessMode = "" })},
	"volumes": {edit: storage(func(c *appsapi.StatefulComponent) {
		c.Storage = append(c.Storage, appsapi.StorageSpec{Name: "logs", MountPath: "/logs", Size: resource.MustParse("1Gi")})
	}), says: []string{"False/StorageRefused", "none can be added or removed"}, back: storage(func(c *appsapi.StatefulComponent) { c.Storage = c.Storage[:1] })},
	"templates": {edit: storage(func(c *appsapi.StatefulComponent) { c.Storage[0].Size = resource.MustParse("2Gi") }), says: []string{fine}},
	"clusterip": {hand: func(w *world, name string) {
		replace(w, &corev1.Service{ObjectMeta: w.meta(name + "-web")}, func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, nil
		})
	}, says: []string{"False/", "its spec.clusterIP cannot change"}},
	"selector": handedOver("its spec.selector is not", func(s *appsv1.StatefulSetSpec) {
		s.Selector.MatchLabels["their"], s.Template.Labels["their"] = "label", "label"
	}),
	"servicename": handedOver("its spec.serviceName is not", func(s *appsv1.StatefulSetSpec) { s.ServiceName = "theirs" }),
}

// handedOver is a set that its owner has made otherwise and then given away.
func handedOver(says string, change func(*appsv1.StatefulSetSpec)) attempt {
	return attempt{says: []string{"False/", says}, hand: func(w *world, name string) {
		replace(w, &appsv1.StatefulSet{ObjectMeta: w.meta(name + "-db")}, func(s *appsv1.StatefulSet) { change(&s.Spec) })
	}}
}

// replace makes something of ours anew, as somebody else would who hands it over.
func replace[T client.Object](w *world, obj T, change func(T)) {
	w.Helper()
	w.Expect(w.Get(w.Context(), client.ObjectKeyFromObject(obj), obj)).To(Succeed())
	change(obj)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetAnnotations(map[string]string{appsapi.AnnotationAdopt: "true"})
	// Whoever is faster: the operator makes its own again at once.
	w.Eventually(func() error {
		old := obj.DeepCopyObject().(client.Object)
		if err := w.Delete(w.Context(), old, client.PropagationPolicy(metav1.DeletePropagationOrphan)); client.IgnoreNotFound(err) != nil {
			return err
		}
		return w.Create(w.Context(), obj.DeepCopyObject().(client.Object))
	}, "30s", "1ms").Should(Succeed())
}

// immutable tries to change what cannot change: each time it is done in the way that is
// planned for it, or refused with a reason, nobody tries for ever, and what was allocated
// stays.
func immutable(w *world, row *report.Row) {
	names := slices.Sorted(maps.Keys(attempts))
	row.Generated = len(names)
	most := 0
	for _, name := range names {
		w.create(name, fixedStack)
	}
	for _, name := range names {
		w.becomesReady(name)
		w.FallsSilent(name)
	}
	for _, name := range names {
		if !w.Run(name, func(t *testing.T) { most = max(most, w.on(t).attempt(name, attempts[name])) }) {
			row.Failed++
		}
		row.Run++
	}
	row.Seen = fmt.Sprintf("%d changes of what cannot change: done as planned or refused with a reason; at most %d writes to a child in %s; every address and port that was allocated stayed",
		row.Run, most, calm)
}

// calm is how long somebody is listened to who was refused.
var calm = lasts(time.Second, 5*time.Second)

// attempt plays one, and returns how many writes to children were sent once all was said.
func (w *world) attempt(name string, a attempt) int {
	before := w.allocated(name)
	if a.hand != nil {
		a.hand(w, name)
	}
	if a.edit != nil {
		err := w.change(name, a.edit)
		if a.denied != "" {
			w.Expect(err).To(MatchError(ContainSubstring(a.denied)))
			w.Expect(w.allocated(name)).To(Equal(before))
			return 0
		}
		w.Expect(err).NotTo(HaveOccurred())
	}
	w.balances(name)
	app := &appsapi.AppStack{ObjectMeta: w.meta(name)}
	for _, text := range a.says {
		w.Eventually(func() string { return w.Condition(app, "Ready") }, "40s").Should(ContainSubstring(text))
	}
	w.FallsSilent(name)
	calls := w.Calls(func() { time.Sleep(calm) }).Writes().Where(func(e *audit.Event) bool {
		return strings.HasPrefix(e.ObjectRef.Name, name) && e.ObjectRef.Resource != "appstacks" && e.ObjectRef.Resource != "events"
	})
	w.Expect(len(calls)).To(BeNumerically("<=", 3), "%s", calls.Count())
	if a.back != nil {
		w.Expect(w.change(name, a.back)).To(Succeed())
		w.becomesReady(name)
	}
	if a.hand == nil {
		w.keeps(name, before)
	}
	return len(calls)
}

func (w *world) change(name string, edit func(*appsapi.AppStackSpec)) error {
	app := w.stack(name)
	before := app.DeepCopy()
	edit(&app.Spec)
	return w.Patch(w.Context(), app, client.MergeFrom(before))
}

// balances plays the load balancer of a Service that is to have one.
func (w *world) balances(name string) {
	w.Helper()
	if w.stack(name).Spec.Components[1].Service.Service.Type != appsapi.ServiceLoadBalancer {
		return
	}
	service := &corev1.Service{ObjectMeta: w.meta(name + "-web")}
	w.Eventually(func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(service), service); err != nil {
			return err
		}
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return fmt.Errorf("its type is %s", service.Spec.Type)
		}
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		return w.Status().Update(w.Context(), service)
	}, "30s").Should(Succeed())
}

// allocated is what Kubernetes has given a stack: addresses, ports, pods, volumes.
func (w *world) allocated(name string) map[string]string {
	out := map[string]string{}
	for _, s := range []string{"-web", "-db"} {
		service := stage.Find(w.World, &corev1.Service{ObjectMeta: w.meta(name + s)})
		out["address of "+name+s] = service.Spec.ClusterIP
		if port := service.Spec.Ports[0].NodePort; port != 0 {
			out["port of "+name+s] = fmt.Sprint(port)
		}
	}
	var claim corev1.PersistentVolumeClaim
	w.Expect(w.Get(w.Context(), types.NamespacedName{Namespace: w.NS, Name: "data-" + name + "-db-0"}, &claim)).To(Succeed())
	out["claim"] = string(claim.UID)
	for _, pod := range w.podsOf(name) {
		out[pod] = ""
	}
	return out
}

// keeps sees that nothing of what was allocated has changed, also when a type changes on to
// the next one and back.
func (w *world) keeps(name string, before map[string]string) {
	w.Helper()
	after := w.allocated(name)
	for what, value := range before {
		w.Expect(after).To(HaveKeyWithValue(what, value))
	}
	if !strings.Contains(name, "nodeport") && !strings.Contains(name, "loadbalancer") {
		return
	}
	for _, to := range []appsapi.ServiceType{appsapi.ServiceLoadBalancer, appsapi.ServiceNodePort} {
		w.Expect(w.change(name, serviceType(to))).To(Succeed())
		w.balances(name)
		w.becomesReady(name)
		w.Expect(w.allocated(name)).To(Equal(after), string(to))
	}
	w.Expect(w.change(name, serviceType(appsapi.ServiceClusterIP))).To(Succeed())
	w.becomesReady(name)
	w.Expect(w.allocated(name)).To(Equal(before))
}
