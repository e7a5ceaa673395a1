package reconcile

import (
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/reconcile/execute"
)

// ruleState is the history that the rules need.
type ruleState struct {
	createCounts       map[string]int      // per child and UID of its owner
	jobRuns            map[string]int      // per job
	readyComponents    map[string]bool     // components that were ready at their current generation
	appliedGenerations map[types.UID]int64 // the generation of the last pod template
	startedFromOldList bool                // a restart has read an outdated list
	// specs of applications by UID and generation. They follow from the edits.
	specs map[string]client.Object

	actingUID        types.UID
	actingGeneration int64
}

func newRuleState() ruleState {
	return ruleState{createCounts: map[string]int{}, jobRuns: map[string]int{}, readyComponents: map[string]bool{}, appliedGenerations: map[types.UID]int64{}, specs: map[string]client.Object{}}
}

func (h *ruleState) clone() ruleState {
	return ruleState{maps.Clone(h.createCounts), maps.Clone(h.jobRuns), maps.Clone(h.readyComponents), maps.Clone(h.appliedGenerations), h.startedFromOldList, maps.Clone(h.specs), "", 0}
}

func (h *ruleState) text() string {
	return fmt.Sprint(h.createCounts, h.jobRuns, h.readyComponents, h.appliedGenerations, h.startedFromOldList)
}

func specKey(uid types.UID, generation int64) string { return fmt.Sprintf("%s@%d", uid, generation) }

func isApplication(obj client.Object) bool {
	_, ok := obj.(execute.Application)
	return ok
}

func componentsOf(obj client.Object) []desired.ExpandedComponent {
	if stack, ok := obj.(*appsapi.AppStack); ok {
		return stackKind.Components(stack)
	}
	return serviceKind.Components(obj.(*appsapi.AppService))
}

// checkRules checks every change before it is stored. Changes by the operator must follow the
// rules.
func (w *world) checkRules(verb string, before, after client.Object) {
	if isApplication(after) && verb != "delete" {
		w.specs[specKey(after.GetUID(), after.GetGeneration())] = after
	}
	if w.reconciling == (ref{}) || w.violation != "" {
		return
	}
	rules := []func(string, client.Object, client.Object) string{w.onlyOwnObjects, w.createdOnce, w.desiredNotDeleted, w.neverOlderGeneration, w.dependencyOrder, w.readyMeansReady}
	for _, rule := range rules {
		if violation := rule(verb, before, after); violation != "" {
			w.violation = fmt.Sprintf("%s %s by %s: %s", verb, ref{kindOf(after), after.GetName()}, w.reconciling, violation)
			return
		}
	}
}

// onlyOwnObjects: objects of other owners are not written.
func (w *world) onlyOwnObjects(verb string, before, after client.Object) string {
	if isApplication(after) {
		if verb == "delete" || (ref{kindOf(after), after.GetName()}) != w.reconciling {
			return "the object has another owner"
		}
		return ""
	}
	if verb == "create" {
		return ""
	}
	owner := metav1.GetControllerOfNoCopy(before)
	switch {
	case owner != nil && owner.UID == w.actingUID:
	case owner == nil && before.GetLabels()[appsapi.DefaultKeys.OwnerUID] == string(w.actingUID):
	case owner == nil && before.GetAnnotations()[appsapi.DefaultKeys.Adopt] == "true":
	default:
		return fmt.Sprintf("the object is not controlled by %s", w.actingUID)
	}
	return ""
}

// createdOnce: a child is created once per UID of its owner. The exception is an operator that
// restarts with an outdated list after its owner was deleted: no list shows the deletion, and the
// garbage collector deletes the new child.
func (w *world) createdOnce(verb string, _, after client.Object) string {
	if verb != "create" {
		return ""
	}
	key := fmt.Sprint(ref{kindOf(after), after.GetName()}, " for ", w.actingUID)
	w.createCounts[key]++
	owner := w.server.objects[w.reconciling]
	ownerExists := owner != nil && owner.uid() == w.actingUID && !owner.deleting()
	if w.createCounts[key] > 1 && !w.scenario.allowsRecreate && (ownerExists || !w.startedFromOldList) {
		return fmt.Sprintf("created %d times", w.createCounts[key])
	}
	return ""
}

// desiredNotDeleted: desired children are not deleted.
func (w *world) desiredNotDeleted(verb string, _, after client.Object) string {
	owner := w.server.objects[w.reconciling]
	if verb != "delete" || owner == nil || owner.uid() != w.actingUID || owner.deleting() {
		return ""
	}
	gvk := owner.object.GetObjectKind().GroupVersionKind()
	o := desired.Owner{Keys: appsapi.DefaultKeys, APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Namespace: modelNamespace, Name: owner.name, UID: owner.uid()}
	for _, c := range desired.Build(o, componentsOf(owner.object), desired.ClusterState{}) {
		for _, child := range c.Children {
			if child.Kind.Kind == kindOf(after) && child.Name == after.GetName() {
				return "the spec still declares it"
			}
		}
	}
	return ""
}

// podTemplateOf returns the pod template of a workload.
func podTemplateOf(obj client.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.Job:
		return &o.Spec.Template
	}
	return nil
}

func componentImage(c desired.ExpandedComponent) string {
	if c.Job != nil {
		return c.Job.Image
	}
	return c.Service.Image
}

// dependencyOrder: pods are created and replaced only after all their dependencies are ready at the
// generation that declares these pods.
func (w *world) dependencyOrder(verb string, before, after client.Object) string {
	template := podTemplateOf(after)
	if template == nil || verb == "delete" || verb == "update" && imageOf(podTemplateOf(before)) == imageOf(template) {
		return ""
	}
	// Of the generations that declare these pods the last one counts: a spec can be reverted.
	var last client.Object
	var dependsOn []string
	for _, spec := range w.specs {
		if spec.GetUID() != w.actingUID || last != nil && last.GetGeneration() > spec.GetGeneration() {
			continue
		}
		for _, c := range componentsOf(spec) {
			if c.Name == after.GetLabels()[appsapi.LabelComponent] && componentImage(c) == imageOf(template) {
				last, dependsOn = spec, c.DependsOn
			}
		}
	}
	if last == nil {
		return "no spec declares " + imageOf(template)
	}
	return w.firstNotReady(last, dependsOn)
}

// neverOlderGeneration: pods are not replaced by pods of an earlier generation, even if the caches
// are outdated.
func (w *world) neverOlderGeneration(verb string, before, after client.Object) string {
	if podTemplateOf(after) == nil || verb == "delete" || verb == "update" && imageOf(podTemplateOf(before)) == imageOf(podTemplateOf(after)) {
		return ""
	}
	if last := w.appliedGenerations[after.GetUID()]; w.actingGeneration < last {
		return fmt.Sprintf("generation %d overwrites generation %d", w.actingGeneration, last)
	}
	w.appliedGenerations[after.GetUID()] = w.actingGeneration
	return ""
}

// markReady records which components are ready at which generations.
func (w *world) markReady() {
	for _, v := range w.server.objects {
		owner, current := metav1.GetControllerOfNoCopy(v.object), w.pods[v.uid()]
		if owner == nil || !current.ready {
			continue
		}
		for key, spec := range w.specs {
			if spec.GetUID() != owner.UID {
				continue
			}
			for _, c := range componentsOf(spec) {
				if c.Name == v.object.GetLabels()[appsapi.LabelComponent] && componentImage(c) == current.image {
					w.readyComponents[key+"/"+c.Name] = true
				}
			}
		}
	}
}

// firstNotReady returns a violation for the first component that was not ready at the generation of
// a spec.
func (w *world) firstNotReady(spec client.Object, names []string) string {
	for _, name := range names {
		if !w.readyComponents[specKey(spec.GetUID(), spec.GetGeneration())+"/"+name] {
			return fmt.Sprintf("%q was not ready at generation %d", name, spec.GetGeneration())
		}
	}
	return ""
}

// readyMeansReady: Ready is reported for a generation only after all of its components were ready.
func (w *world) readyMeansReady(verb string, before, after client.Object) string {
	app, ok := after.(execute.Application)
	if !ok || verb != "update" {
		return ""
	}
	previous := meta.FindStatusCondition(before.(execute.Application).ApplicationStatus().Conditions, appsapi.ConditionReady)
	c := meta.FindStatusCondition(app.ApplicationStatus().Conditions, appsapi.ConditionReady)
	if c == nil || c.Status != metav1.ConditionTrue || previous != nil && previous.Status == c.Status && previous.ObservedGeneration == c.ObservedGeneration {
		return "" // the condition has not changed
	}
	spec := w.specs[specKey(app.GetUID(), c.ObservedGeneration)]
	if spec == nil {
		return fmt.Sprintf("unknown generation %d", c.ObservedGeneration)
	}
	var names []string
	for _, component := range componentsOf(spec) {
		names = append(names, component.Name)
	}
	return w.firstNotReady(spec, names)
}
