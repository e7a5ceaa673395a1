package apibudget

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

// repairTimeout is when a drift that is still there counts as not repaired.
const repairTimeout = 15 * time.Second

// drift is something that another client does to a child.
type drift struct {
	name     string
	newChild func(metav1.ObjectMeta) client.Object
	change   func(client.Object) // nil deletes the child
	// component of a stack that it is a child of.
	component string
	// required is what it must cost; nothing means one write to the child.
	required requestCounts
	// allowed is what it may cost beside that.
	allowed requestCounts
}

// Pods that come and go because of a drift are news, and so is a child that is made
// again. A child that lost the label our caches select on looks like a deleted one: only
// a read shows that it is still there. Before a reference is restored, or a child made
// again, another read shows that the owner is still there. Taking a field away that
// somebody put in the place of ours costs a read and a write of the books. A write to a
// Deployment may be refused because the controller-manager was faster, more than once.
var (
	noExtra             = requestCounts{}
	conflictRetries     = requestCounts{rejected: 5}
	podChurn            = requestCounts{status: 2, events: 1, rejected: 5}
	ownershipRead       = requestCounts{reads: 1, rejected: 5}
	managedFieldsRepair = requestCounts{reads: 1, children: 1}
)

func newDeployment(meta metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: meta} }
func newService(meta metav1.ObjectMeta) client.Object    { return &corev1.Service{ObjectMeta: meta} }

func deploymentDrift(name string, allowed requestCounts, change func(*appsv1.Deployment)) drift {
	return drift{name: "Deployment: " + name, newChild: newDeployment, allowed: allowed, change: func(o client.Object) { change(o.(*appsv1.Deployment)) }}
}

func serviceDrift(name string, allowed requestCounts, change func(*corev1.Service)) drift {
	return drift{name: "Service: " + name, newChild: newService, allowed: allowed, change: func(o client.Object) { change(o.(*corev1.Service)) }}
}

// metadataDrifts are changes of metadata, which all children have.
func metadataDrifts(name string, allowed requestCounts, change func(client.Object)) []drift {
	return []drift{
		{name: "Deployment: " + name, newChild: newDeployment, allowed: allowed, change: change},
		{name: "Service: " + name, newChild: newService, allowed: allowed, change: change},
	}
}

func appDrifts() []drift {
	container := func(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }
	all := []drift{
		deploymentDrift("image", podChurn, func(d *appsv1.Deployment) { container(d).Image = "other/web:9" }),
		deploymentDrift("replicas", podChurn, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(2)) }),
		deploymentDrift("env changed", podChurn, func(d *appsv1.Deployment) { container(d).Env[0].Value = "other" }),
		deploymentDrift("env removed", podChurn, func(d *appsv1.Deployment) { container(d).Env = nil }),
		deploymentDrift("strategy", conflictRetries, func(d *appsv1.Deployment) {
			d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		}),
		serviceDrift("port", managedFieldsRepair, func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }),
		serviceDrift("target port", noExtra, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9090) }),
		serviceDrift("selector", noExtra, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "other"} }),
	}
	for _, more := range [][]drift{
		metadataDrifts("label changed", conflictRetries, changeLabel("app.kubernetes.io/part-of", "other")),
		metadataDrifts("label removed", conflictRetries, changeLabel("app.kubernetes.io/component", "")),
		metadataDrifts("label owner-uid changed", conflictRetries, changeLabel("apps.holdfast.dev/owner-uid", "other")),
		metadataDrifts("annotation applied changed", conflictRetries, func(o client.Object) {
			o.SetAnnotations(map[string]string{"apps.holdfast.dev/applied-hash": "other"})
		}),
		metadataDrifts("ownerReferences stripped", ownershipRead, func(o client.Object) { o.SetOwnerReferences(nil) }),
		metadataDrifts("label managed-by removed", ownershipRead, changeLabel("app.kubernetes.io/managed-by", "")),
	} {
		all = append(all, more...)
	}
	return append(all,
		drift{name: "Deployment: deleted", newChild: newDeployment, allowed: requestCounts{status: 2, events: 2, reads: 2}},
		drift{name: "Service: deleted", newChild: newService, allowed: requestCounts{events: 1, reads: 2}})
}

// changeLabel changes one label, or removes it.
func changeLabel(key, value string) func(client.Object) {
	return func(o client.Object) {
		labels := maps.Clone(o.GetLabels())
		labels[key] = value
		if value == "" {
			delete(labels, key)
		}
		o.SetLabels(labels)
	}
}

// driftTarget is a child that drifts.
type driftTarget struct {
	drift
	app    string
	before client.Object
}

// driftTargets gives every drift its share of the applications; child finds what drifts.
func (s *harness) driftTargets(all []drift, names []string, find func(d drift, app string) client.Object) []driftTarget {
	s.Helper()
	each := len(names) / len(all)
	if each == 0 {
		s.Fatalf("%d applications are too few for %d drifts", len(names), len(all))
	}
	var out []driftTarget
	for i, d := range all {
		for _, app := range names[i*each : (i+1)*each] {
			out = append(out, driftTarget{d, app, find(d, app)})
		}
	}
	return out
}

// measureDrift holds every drift to its budget. One that took more is seen once more, with all others:
// how often pods come and go on the way is up to the controller-manager, and each time is news.
func (s *harness) measureDrift() {
	rows := s.runDrifts()
	for _, r := range rows {
		if !r.OK {
			s.Logf("%s: %s, measured %s: once more", r.Name, r.Budget, r.Measured)
			rows = s.runDrifts()
			break
		}
	}
	for _, r := range rows {
		s.table.add(r)
	}
}

// runDrifts lets everything drift at the same time, each on applications of its own.
func (s *harness) runDrifts() (rows []row) {
	s.Helper()
	targets := s.driftTargets(appDrifts(), s.appNames(), func(d drift, app string) client.Object { return s.getChild(d, app) })
	targets = append(targets, s.stackDriftTargets()...)
	all := append(s.appNames(), s.stackNames()...)
	got := operatorRequests(s.recordRequests(func() {
		var group sync.WaitGroup
		for _, v := range targets {
			group.Go(func() { s.applyDrift(v) })
		}
		group.Wait()
		// What is not repaired by then is a row that failed, not the end of the others.
		s.becomesQuiet(repairTimeout)
		s.waitReady(all...) // a Job that runs again takes its time
	}))
	known := map[string]bool{}
	for _, v := range targets {
		known[v.app] = true
	}
	for len(targets) > 0 {
		n := 1
		for n < len(targets) && targets[n].name == targets[0].name {
			n++
		}
		rows = append(rows, s.repairRow(targets[:n], got, known))
		targets = targets[n:]
	}
	s.waitQuiet() // what had to be healed is news
	s.waitReady(all...)
	return rows
}

// repairRow is the row of one drift.
func (s *harness) repairRow(targets []driftTarget, got audit.Events, known map[string]bool) row {
	d := targets[0].drift
	var names []string
	for _, v := range targets {
		names = append(names, v.app)
	}
	requests := got.Where(func(e *audit.Event) bool { return !known[appOf(e)] || slices.Contains(names, appOf(e)) })
	budget := d.required
	if budget == (requestCounts{}) {
		budget = requestCounts{children: 1}
	}
	for what := range budget {
		budget[what] += d.allowed[what]
	}
	r := budgetRow(fmt.Sprintf("drift of %d x %s", len(names), d.name), budget, requests, names, exactCategories...)
	for _, v := range targets {
		if difference := differenceOf(v.before, s.getChild(d, v.before.GetName())); difference != "" {
			r.OK, r.Notes = false, append(r.Notes, v.before.GetName()+" was not repaired: "+difference)
			s.restoreChild(v)
		}
	}
	return r
}

func (s *harness) getChild(d drift, name string) client.Object {
	obj := d.newChild(metav1.ObjectMeta{Namespace: s.ns, Name: name})
	if err := s.Get(s.Context(), client.ObjectKeyFromObject(obj), obj); err != nil && !apierrors.IsNotFound(err) {
		s.Error(err)
	}
	return obj
}

// restoreChild does what the operator should have done, for the sake of later rows.
func (s *harness) restoreChild(v driftTarget) {
	s.Helper()
	current := s.getChild(v.drift, v.before.GetName())
	good := v.before.DeepCopyObject().(client.Object)
	good.SetUID(current.GetUID())
	good.SetResourceVersion(current.GetResourceVersion())
	s.check(s.Update(s.Context(), good))
}

func (s *harness) applyDrift(v driftTarget) {
	obj := v.before.DeepCopyObject().(client.Object)
	if v.change == nil {
		s.check(s.Delete(s.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		return
	}
	v.change(obj)
	s.check(s.Patch(s.Context(), obj, client.MergeFrom(v.before)))
}

// differenceOf says what of a child is not as it was, of all that we hold.
func differenceOf(before, after client.Object) string {
	for key, value := range before.GetLabels() {
		held := strings.HasPrefix(key, "app.kubernetes.io/") || strings.HasPrefix(key, "apps.holdfast.dev/")
		if held && after.GetLabels()[key] != value {
			return "label " + key
		}
	}
	if !equality.Semantic.DeepEqual(before.GetOwnerReferences(), after.GetOwnerReferences()) {
		return "ownerReferences"
	}
	for _, key := range []string{"apps.holdfast.dev/applied-hash", "apps.holdfast.dev/revision-healthy"} {
		if before.GetAnnotations()[key] != after.GetAnnotations()[key] {
			return "annotation " + key
		}
	}
	switch before := before.(type) {
	case *appsv1.Deployment:
		if !equality.Semantic.DeepEqual(before.Spec, after.(*appsv1.Deployment).Spec) {
			return "spec"
		}
	case *appsv1.ControllerRevision:
		if after := after.(*appsv1.ControllerRevision); before.Revision != after.Revision || !bytes.Equal(before.Data.Raw, after.Data.Raw) {
			return "revision"
		}
	case *corev1.Service:
		after := after.(*corev1.Service)
		if !equality.Semantic.DeepEqual(before.Spec.Ports, after.Spec.Ports) {
			return fmt.Sprintf("ports %v", after.Spec.Ports)
		}
		if !maps.Equal(before.Spec.Selector, after.Spec.Selector) {
			return fmt.Sprintf("selector %v", after.Spec.Selector)
		}
	}
	return ""
}
