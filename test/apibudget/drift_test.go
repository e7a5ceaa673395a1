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

// repairTimeout is the time after which drift counts as not corrected.
const repairTimeout = 15 * time.Second

// reportInterval is the time in which further drift of the same object is only counted. The count would be reported
// during a later row.
const reportInterval = time.Minute

// drift is a change of a child by another client.
type drift struct {
	name     string
	newChild func(metav1.ObjectMeta) client.Object
	change   func(client.Object) // nil deletes the child
	// component is the component of a stack that the child belongs to.
	component string
	// required is the exact cost. Empty means one write of the child.
	required requestCounts
	// allowed is the maximum additional cost.
	allowed requestCounts
}

// A correction is written to the status and emitted as an event; a deleted child causes an event anyway. One read
// finds the field manager. Drift that replaces pods or deletes a child causes further status updates and events. A child that lost the label that
// the cache selects looks deleted, so the operator reads it. Before it restores an owner reference or recreates a
// child, it also reads the owner. Removing a conflicting field of another manager, if permitted, costs a read, a
// write of managedFields and an event. Writes of a Deployment may be rejected several times because of conflicts
// with the controller-manager.
var (
	correctionReport    = requestCounts{status: 1, events: 1, reads: 1}
	deletionReport      = requestCounts{status: 1}
	noExtra             = requestCounts{}
	conflictRetries     = requestCounts{rejected: 5}
	podChurn            = requestCounts{status: 2, events: 1, rejected: 5}
	ownershipRead       = requestCounts{reads: 1, rejected: 5}
	managedFieldsRepair = requestCounts{reads: 1, children: 1, events: 1}
)

func newDeployment(meta metav1.ObjectMeta) client.Object { return &appsv1.Deployment{ObjectMeta: meta} }
func newService(meta metav1.ObjectMeta) client.Object    { return &corev1.Service{ObjectMeta: meta} }

func deploymentDrift(name string, allowed requestCounts, change func(*appsv1.Deployment)) drift {
	return drift{name: "Deployment: " + name, newChild: newDeployment, allowed: allowed, change: func(o client.Object) { change(o.(*appsv1.Deployment)) }}
}

func serviceDrift(name string, allowed requestCounts, change func(*corev1.Service)) drift {
	return drift{name: "Service: " + name, newChild: newService, allowed: allowed, change: func(o client.Object) { change(o.(*corev1.Service)) }}
}

// metadataDrifts are changes of metadata, for all kinds of children.
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
		serviceDrift("port", managedFieldsRepair, func(s *corev1.Service) {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, "apps.holdfast.dev/take-ownership", "true")
			s.Spec.Ports[0].Port = 81
		}),
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

// changeLabel changes or removes a label.
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

// driftTarget is a child with drift.
type driftTarget struct {
	drift
	app    string
	before client.Object
}

// driftTargets distributes the drifts over the applications. child returns the child to change.
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

// measureDrift compares every drift with its budget. It measures drifts over budget again, because the number of
// pod replacements, which cause status updates, depends on the controller-manager.
func (s *harness) measureDrift() {
	rows := s.runDrifts()
	for _, r := range rows {
		if !r.OK {
			s.Logf("%s: %s, measured %s: retrying", r.Name, r.Budget, r.Measured)
			rows = s.runDrifts()
			break
		}
	}
	for _, r := range rows {
		s.table.add(r)
	}
}

// runDrifts applies all drifts at the same time, each to different applications.
func (s *harness) runDrifts() (rows []row) {
	s.Helper()
	time.Sleep(reportInterval)
	s.waitQuiet()
	targets := s.driftTargets(appDrifts(), s.appNames(), func(d drift, app string) client.Object { return s.getChild(d, app) })
	targets = append(targets, s.stackDriftTargets()...)
	all := append(s.appNames(), s.stackNames()...)
	got := operatorRequests(s.recordRequests(func() {
		var group sync.WaitGroup
		for _, v := range targets {
			group.Go(func() { s.applyDrift(v) })
		}
		group.Wait()
		// Drift that is not corrected fails its row, but not the other rows.
		s.becomesQuiet(repairTimeout)
		s.waitReady(all...) // a recreated Job takes some time
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
	s.waitQuiet() // recovered applications update their status
	s.waitReady(all...)
	return rows
}

// repairRow returns the row of a drift.
func (s *harness) repairRow(targets []driftTarget, got audit.Events, known map[string]bool) row {
	d := targets[0].drift
	var names []string
	for _, v := range targets {
		names = append(names, v.app)
	}
	requests := got.Where(func(e *audit.Event) bool { return !known[appOf(e)] || slices.Contains(names, appOf(e)) })
	budget := d.required
	if budget == (requestCounts{}) {
		budget = correctionReport
		if d.change == nil {
			budget = deletionReport
		}
		budget[children] = 1
	}
	for what := range budget {
		budget[what] += d.allowed[what]
	}
	r := budgetRow(fmt.Sprintf("drift of %d x %s", len(names), d.name), budget, requests, names, exactCategories...)
	for _, v := range targets {
		if difference := differenceOf(v.before, s.getChild(d, v.before.GetName())); difference != "" {
			r.OK, r.Notes = false, append(r.Notes, v.before.GetName()+" was not corrected: "+difference)
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

// restoreChild reverts drift that the operator did not correct, so that later rows are not affected.
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

// differenceOf returns the differences of the fields that the operator manages.
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
