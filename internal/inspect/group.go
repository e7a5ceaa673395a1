package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/explain"
	"github.com/holdfast-dev/holdfast/internal/health"
)

// GroupInput contains the known objects of an unmanaged application.
type GroupInput struct {
	// Kind is KindHelmRelease or KindGroup.
	Kind, Namespace, Name string
	// Objects are the members of the application, the objects below them, and related objects:
	// claims, volumes, nodes, events and referenced objects. Their kind is set.
	Objects []runtime.Object
	// CompleteKinds are the kinds of which Objects contains all objects that belong to the application
	// or are referenced by it.
	CompleteKinds []string
	Now           time.Time
}

// EvaluateGroup evaluates an unmanaged application. It has no declared components, so each root that
// runs pods, directly or through its controller, is a component. It has no condition Ready, so it is
// ready when all objects are healthy.
func EvaluateGroup(in GroupInput) View {
	v := View{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name}
	g := newGroupIndex(in)
	assigned, unassigned := g.assignRoots(g.findMembers())
	g.connectWorkloads()
	causes, remaining := v.diagnoseNonWorkloads(g, assigned)
	v.Causes = remaining
	var verdicts []health.Result
	for i, m := range g.members {
		c, reason := v.evaluateMember(g, m, assigned[i], causes[i])
		v.Components = append(v.Components, c)
		verdicts = append(verdicts, health.Result{Status: c.Health, Reason: reason, Message: fmt.Sprintf("Component %q: %s", c.Name, c.Message)})
	}
	for _, c := range v.Causes {
		if c.Severity == explain.Error {
			verdicts = append(verdicts, health.Result{Status: health.Degraded, Reason: appsapi.ReasonComponentDegraded, Message: c.Message})
		}
	}
	for _, obj := range unassigned {
		verdicts = append(verdicts, knownVerdicts(health.Evaluate(obj))...)
		if !g.isMounted(obj) { // a mounted claim is shown below its pod
			v.Unassigned = append(v.Unassigned, g.buildNode(obj, nil))
		}
	}
	sortNodes(v.Unassigned)
	annotateCauses(v.Unassigned, v.Causes)
	v.summarize(verdicts, len(g.roots))
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	for _, c := range v.Causes { // since the first error
		if c.Severity == explain.Error && (v.Since.IsZero() || c.Since.Before(v.Since)) {
			v.Since = c.Since
		}
	}
	v.Changes = recentRootChanges(g.roots)
	return v
}

// knownVerdicts drops Unknown verdicts: an object of a kind without health rules must not make the
// application unknown.
func knownVerdicts(v health.Result) []health.Result {
	if v.Status == health.Unknown {
		return nil
	}
	return []health.Result{v}
}

// summarize sets the health and message of the application.
func (v *View) summarize(verdicts []health.Result, roots int) {
	worst := health.Worst(verdicts...)
	v.Health, v.Reason, v.Message = worst.Status, worst.Reason, worst.Message
	v.Ready = worst.Status == health.Healthy
	switch {
	case v.Ready:
		v.Message = "Everything runs as declared"
	case roots == 0:
		v.Message = "No objects found"
	case len(verdicts) == 0:
		v.Message = "All objects are of kinds without health rules"
	}
}

// evaluateMember evaluates one component with its assigned roots and their causes.
func (v *View) evaluateMember(g *groupIndex, m member, assigned []runtime.Object, causes []explain.Cause) (out Component, reason string) {
	out = Component{Name: m.name, Type: componentType(m.workloads[0]), Workload: desired.ID{Kind: gvkOf(m.workloads[0]), Name: nameOf(m.workloads[0])}}
	verdicts := knownVerdicts(health.Evaluate(m.root))
	for _, w := range m.workloads {
		diagnosis := explain.Explain(g.workloadSnapshot(w), g.in.Now)
		v.EventsNeeded = append(v.EventsNeeded, diagnosis.EventsNeeded...)
		v.scheduleRecheck(diagnosis.RecheckAt)
		causes = append(causes, diagnosis.Causes...)
		ready, desiredPods := replicaCounts(w)
		out.Ready, out.Desired = out.Ready+ready, out.Desired+desiredPods
		verdicts = append(verdicts, health.Evaluate(w))
	}
	out.Causes = explain.PreserveSince(causes, nil) // sorts them
	out.Tree = append(out.Tree, g.buildNode(m.root, nil))
	for _, obj := range assigned {
		verdicts = append(verdicts, knownVerdicts(health.Evaluate(obj))...)
		out.Tree = append(out.Tree, g.buildNode(obj, nil))
	}
	sortNodes(out.Tree[1:]) // the root of the component stays first
	annotateCauses(out.Tree, out.Causes)
	worst := health.Worst(verdicts...)
	out.Health, out.Message, reason = worst.Status, worst.Message, worst.Reason
	switch top := out.topError(); {
	case top != nil:
		out.Health, out.Message, reason = health.Degraded, top.Message, appsapi.ReasonComponentDegraded
	case out.Health == health.Healthy:
		out.Message = ""
	}
	return out, reason
}

// diagnoseNonWorkloads diagnoses objects that are no workloads: Ingresses, routes and custom resources. It
// returns the causes by member, and the remaining causes. Services that select a workload are diagnosed
// with the workload, and Services that are only referenced do not belong to the application.
func (v *View) diagnoseNonWorkloads(g *groupIndex, assigned map[int][]runtime.Object) (byMember map[int][]explain.Cause, remaining []explain.Cause) {
	byMember = map[int][]explain.Cause{}
	memberByRef, roots := map[explain.ObjectRef]int{}, map[explain.ObjectRef]bool{}
	for _, obj := range g.roots {
		roots[newObjectRef(obj)] = true
	}
	for i, m := range g.members {
		memberByRef[newObjectRef(m.root)] = i
		for _, obj := range assigned[i] {
			memberByRef[newObjectRef(obj)] = i
		}
	}
	diagnosis := explain.Explain(g.nonWorkloadSnapshot(), g.in.Now)
	v.EventsNeeded = append(v.EventsNeeded, diagnosis.EventsNeeded...)
	v.scheduleRecheck(diagnosis.RecheckAt)
	for _, c := range diagnosis.Causes {
		i, isAssigned := memberByRef[c.Object]
		switch {
		case !roots[c.Object] || g.reachedServices[objectKey{"", c.Object.Kind, c.Object.Namespace, c.Object.Name}]:
		case isAssigned:
			byMember[i] = append(byMember[i], c)
		default:
			remaining = append(remaining, c)
		}
	}
	return byMember, explain.PreserveSince(remaining, nil)
}

// componentType returns the component type that matches a workload; empty for a DaemonSet and a
// standalone pod.
func componentType(workload runtime.Object) appsapi.ComponentType {
	switch workload.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet:
		return appsapi.ComponentService
	case *appsv1.StatefulSet:
		return appsapi.ComponentStateful
	case *batchv1.Job, *batchv1.CronJob:
		return appsapi.ComponentJob
	}
	return ""
}

func nameOf(obj runtime.Object) string { return obj.(metav1.Object).GetName() }

// nameMembers names the components after their roots. Duplicate names get the kind as a prefix.
func (g *groupIndex) nameMembers() {
	taken := map[string]int{}
	for _, m := range g.members {
		taken[nameOf(m.root)]++
	}
	for i := range g.members {
		m := &g.members[i]
		m.name = nameOf(m.root)
		if taken[m.name] > 1 {
			m.name = strings.ToLower(gvkOf(m.root).Kind) + "/" + m.name
		}
	}
	slices.SortFunc(g.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
}

// isMounted reports whether a claim is shown below the pods that use it.
func (g *groupIndex) isMounted(obj runtime.Object) bool {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	return ok && g.mountedClaims[objectKey{"", kindClaim, claim.Namespace, claim.Name}]
}
