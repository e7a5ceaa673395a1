package view

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

// GroupInput is what is known about an application that is not ours.
type GroupInput struct {
	// Kind is KindHelmRelease or KindGroup.
	Kind, Namespace, Name string
	// Objects are those that say that they belong to it, what these made, and what is around
	// them: claims, volumes, nodes, events, and what they refer to. They carry their kind.
	Objects []runtime.Object
	// Whole are the kinds of which everything that belongs to these objects, or is referred to
	// by one of them, is there.
	Whole []string
	Now   time.Time
}

// Group judges an application that is not ours. Nobody declared its components, so they are
// found: each of its roots that runs pods is one, whether by itself or through what its own
// controller made of it. Nobody says either that it is ready: it is when everything is well.
func Group(in GroupInput) View {
	v := View{Kind: in.Kind, Namespace: in.Namespace, Name: in.Name}
	g := newGroup(in)
	placed, rest := g.spread(g.components())
	g.connect()
	causes, own := v.between(g, placed)
	v.Causes = own
	var verdicts []health.Verdict
	for i, m := range g.members {
		c, reason := v.member(g, m, placed[i], causes[i])
		v.Components = append(v.Components, c)
		verdicts = append(verdicts, health.Verdict{Status: c.Health, Reason: reason, Message: fmt.Sprintf("Component %q: %s", c.Name, c.Message)})
	}
	for _, c := range v.Causes {
		if c.Severity == explain.Error {
			verdicts = append(verdicts, health.Verdict{Status: health.Degraded, Reason: appsapi.ReasonComponentDegraded, Message: c.Sentence})
		}
	}
	for _, obj := range rest {
		verdicts = append(verdicts, known(health.Of(obj))...)
		if !g.isMounted(obj) { // it is shown where it is
			v.Rest = append(v.Rest, g.node(obj, nil))
		}
	}
	sortNodes(v.Rest)
	blame(v.Rest, v.Causes)
	v.sum(verdicts, len(g.roots))
	for _, c := range v.Components {
		v.Causes = append(v.Causes, c.Causes...)
	}
	for _, c := range v.Causes { // not well since the first of what is wrong
		if c.Severity == explain.Error && (v.Since.IsZero() || c.Since.Before(v.Since)) {
			v.Since = c.Since
		}
	}
	v.Changes = newestChanges(g.roots)
	return v
}

// known leaves out a verdict that says nothing: nobody here can tell how the objects of every
// kind are, and one of those must not make everything look unwell.
func known(v health.Verdict) []health.Verdict {
	if v.Status == health.Unknown {
		return nil
	}
	return []health.Verdict{v}
}

// sum judges the whole.
func (v *View) sum(verdicts []health.Verdict, roots int) {
	worst := health.Worst(verdicts...)
	v.Health, v.Reason, v.Message = worst.Status, worst.Reason, worst.Message
	v.Ready = worst.Status == health.Healthy
	switch {
	case v.Ready:
		v.Message = "Everything runs as declared"
	case roots == 0:
		v.Message = "Nothing of it was found"
	case len(verdicts) == 0:
		v.Message = "It has only objects of kinds whose health cannot be judged"
	}
}

// member judges one component, with the roots that belong to it alone and what is wrong with
// them.
func (v *View) member(g *group, m member, placed []runtime.Object, causes []explain.Cause) (out Component, reason string) {
	out = Component{Name: m.name, Type: typeOf(m.workloads[0]), Workload: desired.ID{Kind: kindOf(m.workloads[0]), Name: nameOf(m.workloads[0])}}
	verdicts := known(health.Of(m.root))
	for _, w := range m.workloads {
		answer := explain.Explain(g.scene(w), g.in.Now)
		v.Ask = append(v.Ask, answer.Ask...)
		v.later(answer.Again)
		causes = append(causes, answer.Causes...)
		ready, wanted := counts(w)
		out.Ready, out.Wanted = out.Ready+ready, out.Wanted+wanted
		verdicts = append(verdicts, health.Of(w))
	}
	out.Causes = explain.Keep(causes, nil) // in order
	out.Tree = append(out.Tree, g.node(m.root, nil))
	for _, obj := range placed {
		verdicts = append(verdicts, known(health.Of(obj))...)
		out.Tree = append(out.Tree, g.node(obj, nil))
	}
	sortNodes(out.Tree[1:]) // what it is about stays first
	blame(out.Tree, out.Causes)
	worst := health.Worst(verdicts...)
	out.Health, out.Message, reason = worst.Status, worst.Message, worst.Reason
	switch top := out.cause(); {
	case top != nil:
		out.Health, out.Message, reason = health.Degraded, top.Sentence, appsapi.ReasonComponentDegraded
	case out.Health == health.Healthy:
		out.Message = ""
	}
	return out, reason
}

// between explains what no workload is: Ingresses and routes, and objects of kinds that are
// not known here. It returns what is wrong with those that stand with a component, and what
// with the others. What is said about a Service that leads to a workload is said there, and
// one that is only referred to is not of this application.
func (v *View) between(g *group, placed map[int][]runtime.Object) (of map[int][]explain.Cause, own []explain.Cause) {
	of = map[int][]explain.Cause{}
	home, roots := map[explain.Object]int{}, map[explain.Object]bool{}
	for _, obj := range g.roots {
		roots[objectOf(obj)] = true
	}
	for i, m := range g.members {
		home[objectOf(m.root)] = i
		for _, obj := range placed[i] {
			home[objectOf(obj)] = i
		}
	}
	for _, scene := range g.outside() {
		answer := explain.Explain(scene, g.in.Now)
		v.Ask = append(v.Ask, answer.Ask...)
		v.later(answer.Again)
		for _, c := range answer.Causes {
			i, isPlaced := home[c.Object]
			switch {
			case !roots[c.Object] || g.reached[place{"", c.Object.Kind, c.Object.Namespace, c.Object.Name}]:
			case isPlaced:
				of[i] = append(of[i], c)
			default:
				own = append(own, c)
			}
		}
	}
	return of, explain.Keep(own, nil)
}

// typeOf is what a component of ours would be called that runs such a workload; a DaemonSet
// and a pod alone are like none.
func typeOf(workload runtime.Object) appsapi.ComponentType {
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

// name gives the components their names: those of their roots. Where two would have the same
// one, the kind tells them apart, and the namespace where that is another one.
func (g *group) name() {
	taken := map[string]int{}
	for _, m := range g.members {
		taken[nameOf(m.root)]++
	}
	for i := range g.members {
		m := &g.members[i]
		m.name = nameOf(m.root)
		if taken[m.name] == 1 {
			continue
		}
		m.name = strings.ToLower(kindOf(m.root).Kind) + "/" + m.name
		if ns := m.root.(metav1.Object).GetNamespace(); ns != g.in.Namespace {
			m.name = ns + "/" + m.name
		}
	}
	slices.SortFunc(g.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
}

// isMounted says whether a claim is shown at the pods that have it.
func (g *group) isMounted(obj runtime.Object) bool {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	return ok && g.mounted[place{"", kindClaim, claim.Namespace, claim.Name}]
}
