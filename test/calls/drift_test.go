package calls

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// repairWithin is when a drift that is still there counts as not repaired.
const repairWithin = 15 * time.Second

// drift is something that another client does to a child.
type drift struct {
	name   string
	child  func(metav1.ObjectMeta) client.Object
	change func(client.Object) // nil deletes the child
	// component of a stack that it is a child of.
	component string
	// repair is what it must cost; nothing means one write to the child.
	repair tally
	// may is what it may cost beside that.
	may tally
}

// Pods that come and go because of a drift are news, and so is a child that is made
// again. A child that lost the label our caches select on looks like a deleted one: only
// a read shows that it is still there. Before a reference is restored, or a child made
// again, another read shows that the owner is still there. Taking a field away that
// somebody put in the place of ours costs a read and a write of the books. A write to a
// Deployment may be refused because the controller-manager was faster, more than once.
var (
	nothing = tally{}
	raced   = tally{refused: 5}
	news    = tally{status: 2, events: 1, refused: 5}
	oneRead = tally{reads: 1, refused: 5}
	books   = tally{reads: 1, children: 1}
)

func aDeployment(meta metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: meta} }
func aService(meta metav1.ObjectMeta) client.Object    { return &corev1.Service{ObjectMeta: meta} }

func onDeployment(name string, may tally, change func(*appsv1.Deployment)) drift {
	return drift{name: "Deployment: " + name, child: aDeployment, may: may, change: func(o client.Object) { change(o.(*appsv1.Deployment)) }}
}

func onService(name string, may tally, change func(*corev1.Service)) drift {
	return drift{name: "Service: " + name, child: aService, may: may, change: func(o client.Object) { change(o.(*corev1.Service)) }}
}

// onBoth are changes of metadata, which all children have.
func onBoth(name string, may tally, change func(client.Object)) []drift {
	return []drift{
		{name: "Deployment: " + name, child: aDeployment, may: may, change: change},
		{name: "Service: " + name, child: aService, may: may, change: change},
	}
}

func drifts() []drift {
	main := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	all := []drift{
		onDeployment("image", news, func(d *appsv1.Deployment) { main(d).Image = "other/web:9" }),
		onDeployment("replicas", news, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }),
		onDeployment("env changed", news, func(d *appsv1.Deployment) { main(d).Env[0].Value = "other" }),
		onDeployment("env removed", news, func(d *appsv1.Deployment) { main(d).Env = nil }),
		onDeployment("strategy", raced, func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}),
		onService("port", books, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }),
		onService("target port", nothing, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9090) }),
		onService("selector", nothing, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }),
	}
	for _, more := range [][]drift{
		onBoth("label changed", raced, label("app.kubernetes.io/part-of", "other")),
		onBoth("label removed", raced, label("app.kubernetes.io/component", "")),
		onBoth("label owner-uid changed", raced, label("apps.holdfast.dev/owner-uid", "other")),
		onBoth("annotation applied changed", raced, func(o client.Object) {
			o.SetAnnotations(map[string]string{"apps.holdfast.dev/applied": "other"})
		}),
		onBoth("ownerReferences stripped", oneRead, func(o client.Object) { o.SetOwnerReferences(nil) }),
		onBoth("label managed-by removed", oneRead, label("app.kubernetes.io/managed-by", "")),
	} {
		all = append(all, more...)
	}
	return append(all,
		drift{name: "Deployment: deleted", child: aDeployment, may: tally{status: 2, events: 2, reads: 2}},
		drift{name: "Service: deleted", child: aService, may: tally{events: 1, reads: 2}})
}

// label changes one label, or removes it.
func label(key, value string) func(client.Object) {
	return func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		labels[key] = value
		if value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

// victim is a child that drifts.
type victim struct {
	drift
	app string
	was client.Object
}

// victims gives every drift its share of the applications; child finds what drifts.
func (s *stage) victims(all []drift, names []string, child func(d drift, app string) client.Object) []victim {
	s.Helper()
	each := len(names) / len(all)
	if each == 0 {
		s.Fatalf("%d applications are too few for %d drifts", len(names), len(all))
	}
	var out []victim
	for i, d := range all {
		for _, app := range names[i*each : (i+1)*each] {
			out = append(out, victim{d, app, child(d, app)})
		}
	}
	return out
}

// drift holds every drift to its budget. One that took more is seen once more, with all others:
// how often pods come and go on the way is up to the controller-manager, and each time is news.
func (s *stage) drift() {
	rows := s.playDrifts()
	for _, r := range rows {
		if !r.OK {
			s.Logf("%s: %s, measured %s: once more", r.Name, r.Budget, r.Measured)
			rows = s.playDrifts()
			break
		}
	}
	for _, r := range rows {
		s.table.add(r)
	}
}

// playDrifts lets everything drift at the same time, each on applications of its own.
func (s *stage) playDrifts() (rows []row) {
	s.Helper()
	victims := s.victims(drifts(), s.names(), func(d drift, app string) client.Object { return s.child(d, app) })
	victims = append(victims, s.stackVictims()...)
	everybody := append(s.names(), s.stackNames()...)
	got := ours(s.requests(func() {
		var group sync.WaitGroup
		for _, v := range victims {
			group.Go(func() { s.disturb(v) })
		}
		group.Wait()
		// What is not repaired by then is a row that failed, not the end of the others.
		s.calmWithin(repairWithin)
		s.waitReady(everybody...) // a Job that runs again takes its time
	}))
	known := map[string]bool{}
	for _, v := range victims {
		known[v.app] = true
	}
	for len(victims) > 0 {
		n := 1
		for n < len(victims) && victims[n].name == victims[0].name {
			n++
		}
		rows = append(rows, s.repaired(victims[:n], got, known))
		victims = victims[n:]
	}
	s.calmDown() // what had to be healed is news
	s.waitReady(everybody...)
	return rows
}

// repaired is the row of one drift.
func (s *stage) repaired(victims []victim, got audit.Events, known map[string]bool) row {
	d := victims[0].drift
	var names []string
	for _, v := range victims {
		names = append(names, v.app)
	}
	mine := got.Where(func(e *audit.Event) bool { return !known[appOf(e)] || slices.Contains(names, appOf(e)) })
	budget := d.repair
	if budget == (tally{}) {
		budget = tally{children: 1}
	}
	for what := range budget {
		budget[what] += d.may[what]
	}
	r := spent(fmt.Sprintf("drift of %d x %s", len(names), d.name), budget, mine, names, necessary...)
	for _, v := range victims {
		if why := different(v.was, s.child(d, v.was.GetName())); why != "" {
			r.OK, r.Notes = false, append(r.Notes, v.was.GetName()+" was not repaired: "+why)
			s.heal(v)
		}
	}
	return r
}

func (s *stage) child(d drift, name string) client.Object {
	obj := d.child(metav1.ObjectMeta{Namespace: s.ns, Name: name})
	if err := s.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
	return obj
}

// heal does what the operator should have done, for the sake of later rows.
func (s *stage) heal(v victim) {
	s.Helper()
	is := s.child(v.drift, v.was.GetName())
	good := v.was.DeepCopyObject().(client.Object)
	good.SetUID(is.GetUID())
	good.SetResourceVersion(is.GetResourceVersion())
	s.check(s.Update(s.Context(), good))
}

func (s *stage) disturb(v victim) {
	obj := v.was.DeepCopyObject().(client.Object)
	if v.change == nil {
		s.check(s.Delete(s.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		return
	}
	v.change(obj)
	s.check(s.Patch(s.Context(), obj, client.MergeFrom(v.was)))
}

// different says what of a child is not as it was, of all that we hold.
func different(was, is client.Object) string {
	for key, value := range was.GetLabels() {
		held := strings.HasPrefix(key, "app.kubernetes.io/") || strings.HasPrefix(key, "apps.holdfast.dev/")
		if held && is.GetLabels()[key] != value {
			return "label " + key
		}
	}
	if !equality.Semantic.DeepEqual(was.GetOwnerReferences(), is.GetOwnerReferences()) {
		return "ownerReferences"
	}
	for _, key := range []string{"apps.holdfast.dev/applied", "apps.holdfast.dev/healthy"} {
		if was.GetAnnotations()[key] != is.GetAnnotations()[key] {
			return "annotation " + key
		}
	}
	switch was := was.(type) {
	case *appsv1.Deployment:
		if !equality.Semantic.DeepEqual(was.Spec, is.(*appsv1.Deployment).Spec) {
			return "spec"
		}
	case *appsv1.ControllerRevision:
		if is := is.(*appsv1.ControllerRevision); was.Revision != is.Revision || !bytes.Equal(was.Data.Raw, is.Data.Raw) {
			return "revision"
		}
	case *corev1.Service:
		is := is.(*corev1.Service)
		if !equality.Semantic.DeepEqual(was.Spec.Ports, is.Spec.Ports) {
			return fmt.Sprintf("ports %v", is.Spec.Ports)
		}
		if !maps.Equal(was.Spec.Selector, is.Spec.Selector) {
			return fmt.Sprintf("selector %v", is.Spec.Selector)
		}
	}
	return ""
}
