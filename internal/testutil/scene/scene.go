// Package scene makes an application with everything around it as a cluster would have it,
// without a cluster: what people see of it is tested on such scenes, which stand still.
//
// Safety rule: children are those that the operator would make, so that no scene shows what
// cannot be.
package scene

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/application"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/view"
)

// Namespace is where all scenes play.
const Namespace = "demo"

// Now is when they are looked at, and Created when everything in them was made.
var (
	Now     = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)
	Created = Now.Add(-2 * time.Hour)
)

var scheme = application.Scheme()

// Before is a time as long ago.
func Before(d time.Duration) metav1.Time { return metav1.NewTime(Now.Add(-d)) }

// Scene is an application and what is around it.
type Scene struct {
	App        application.Application
	Components []desired.Component
	Objects    []client.Object
	// Unread are the kinds that may not be read.
	Unread []string
}

// New is an application of a kind, with a spec in YAML, about which the operator says that
// all is well. Nothing of it exists yet.
func New(kind, name, spec string) *Scene {
	k, err := application.KindCalled(kind)
	must(err)
	app := k.New()
	must(yaml.UnmarshalStrict(fmt.Appendf(nil, "spec: %s", indented(spec)), app))
	app.SetNamespace(Namespace)
	app.SetName(name)
	app.SetUID(types.UID("uid-" + k.Name + "-" + name))
	app.SetGeneration(1)
	app.SetCreationTimestamp(metav1.NewTime(Created))
	app.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, Time: new(metav1.NewTime(Created))}})
	app.GetObjectKind().SetGroupVersionKind(appsapi.GroupVersion.WithKind(k.Name))
	s := &Scene{App: app, Components: desired.For(application.Owner(app), application.Components(app), desired.Known{})}
	s.Says(metav1.ConditionTrue, appsapi.ReasonReconciled, "Everything runs as declared")
	return s
}

func indented(spec string) string {
	spec = strings.TrimSpace(spec)
	if strings.HasPrefix(spec, "{") {
		return spec
	}
	return "\n  " + strings.ReplaceAll(spec, "\n", "\n  ")
}

// must ends a test that was written wrongly.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Says lets the operator say how it is, about the current generation, for twelve minutes.
func (s *Scene) Says(status metav1.ConditionStatus, reason, message string) {
	st := s.App.ApplicationStatus()
	st.ObservedGeneration = s.App.GetGeneration()
	st.Conditions = nil
	meta.SetStatusCondition(&st.Conditions, metav1.Condition{Type: appsapi.ConditionReady, Status: status, Reason: reason, Message: message,
		ObservedGeneration: st.ObservedGeneration, LastTransitionTime: Before(12 * time.Minute)})
}

// SaysOf lets the operator say how a component is.
func (s *Scene) SaysOf(component, health, reason, message string) {
	st := s.Stack()
	for i := range st.Components {
		if c := &st.Components[i]; c.Name == component {
			c.Health, c.Reason, c.Message = health, reason, message
			return
		}
	}
	st.Components = append(st.Components, appsapi.ComponentStatus{Name: component, Health: health, Reason: reason, Message: message})
}

// Waits lets the operator say that a component waits for another one.
func (s *Scene) Waits(component, dependency string) {
	s.SaysOf(component, "Waiting", "WaitingForDependency", fmt.Sprintf("Component %q waits for %q: it is not ready", component, dependency))
}

// Stack is the part of the status that kinds of several components have; nil for others.
func (s *Scene) Stack() *appsapi.StackStatus {
	if o, ok := s.App.(interface{ StackStatus() *appsapi.StackStatus }); ok {
		return o.StackStatus()
	}
	return nil
}

// Component is one by its name.
func (s *Scene) Component(name string) desired.Component {
	for _, c := range s.Components {
		if c.Name == name {
			return c
		}
	}
	panic("there is no component " + name)
}

// Add puts objects into the scene.
func (s *Scene) Add(objects ...client.Object) {
	for _, o := range objects {
		gvks, _, err := scheme.ObjectKinds(o)
		if err == nil {
			o.GetObjectKind().SetGroupVersionKind(gvks[0])
		}
		if o.GetUID() == "" {
			o.SetUID(types.UID(fmt.Sprintf("uid-%s-%s", o.GetObjectKind().GroupVersionKind().Kind, o.GetName())))
		}
		if o.GetCreationTimestamp().Time.IsZero() {
			o.SetCreationTimestamp(metav1.NewTime(Created))
		}
		s.Objects = append(s.Objects, o)
	}
}

// Remove takes an object out.
func (s *Scene) Remove(kind, name string) {
	var rest []client.Object
	for _, o := range s.Objects {
		if o.GetObjectKind().GroupVersionKind().Kind != kind || o.GetName() != name {
			rest = append(rest, o)
		}
	}
	s.Objects = rest
}

// Get is an object of the scene.
func Get[T client.Object](s *Scene, name string) T {
	for _, o := range s.Objects {
		if found, ok := o.(T); ok && o.GetName() == name {
			return found
		}
	}
	panic("there is no " + name)
}

// Pods are those of a component.
func (s *Scene) Pods(component string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, o := range s.Objects {
		if p, ok := o.(*corev1.Pod); ok && p.Labels[appsapi.LabelWorkload] == s.Component(component).WorkloadID {
			out = append(out, p)
		}
	}
	return out
}

// Input is the scene for the view: everything was read but what may not be.
func (s *Scene) Input() view.Input {
	in := view.Input{App: s.App, Kind: application.KindOf(s.App), Status: s.App.ApplicationStatus(), Stack: s.Stack(), Components: s.Components, Now: Now}
	unread := map[string]bool{}
	for _, kind := range s.Unread {
		unread[kind] = true
	}
	for _, kind := range []string{"Deployment", "StatefulSet", "Job", "CronJob", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget",
		"Ingress", "HTTPRoute", "Pod", "ReplicaSet", "PersistentVolumeClaim", "StorageClass"} {
		if !unread[kind] {
			in.Whole = append(in.Whole, kind)
		}
	}
	for _, o := range s.Objects {
		if !unread[o.GetObjectKind().GroupVersionKind().Kind] {
			in.Objects = append(in.Objects, o.(runtime.Object))
		}
	}
	return in
}

// rendered is a child as the API server would have it.
func rendered(child desired.Child) client.Object {
	config, err := child.Render(nil)
	must(err)
	content, err := config.Patch("", "1")
	must(err)
	obj, err := scheme.New(child.Kind)
	must(err)
	must(json.Unmarshal(content, obj))
	o := obj.(client.Object)
	o.SetNamespace(Namespace)
	o.SetGeneration(1)
	return o
}

// Runs makes the children of components, their pods and claims, and all of them are well.
func (s *Scene) Runs(components ...string) {
	for _, name := range components {
		c := s.Component(name)
		for _, child := range c.Children {
			obj := rendered(child)
			s.Add(obj)
			switch w := obj.(type) {
			case *appsv1.Deployment:
				s.deployment(w)
			case *appsv1.StatefulSet:
				s.set(w)
			case *batchv1.Job:
				s.job(w)
			}
		}
	}
}

// RunAll does the same for all components.
func (s *Scene) RunAll() {
	for _, c := range s.Components {
		s.Runs(c.Name)
	}
}

func count(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (s *Scene) deployment(d *appsv1.Deployment) {
	n := count(d.Spec.Replicas)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: d.Name + "-6d5f7c8b9", Labels: d.Spec.Template.Labels, OwnerReferences: controlledBy(d)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &n},
		Status:     appsv1.ReplicaSetStatus{Replicas: n, ReadyReplicas: n, AvailableReplicas: n},
	}
	s.Add(set)
	for i := range n {
		s.pod(fmt.Sprintf("%s-x%dk4z", set.Name, i), set, d.Spec.Template)
	}
}

func (s *Scene) set(w *appsv1.StatefulSet) {
	n := count(w.Spec.Replicas)
	w.Status = appsv1.StatefulSetStatus{ObservedGeneration: 1, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
	for i := range n {
		pod := s.pod(fmt.Sprintf("%s-%d", w.Name, i), w, w.Spec.Template)
		for _, t := range w.Spec.VolumeClaimTemplates {
			claim := t.DeepCopy()
			claim.Namespace, claim.Name = Namespace, fmt.Sprintf("%s-%s", t.Name, pod.Name)
			claim.Labels = map[string]string{appsapi.LabelOwnerKind: application.KindOf(s.App)}
			for k, v := range t.Labels {
				claim.Labels[k] = v
			}
			for k, v := range w.Spec.Selector.MatchLabels {
				claim.Labels[k] = v
			}
			claim.Labels[appsapi.LabelInstance] = s.App.GetName()
			claim.Status.Phase = corev1.ClaimBound
			s.Add(claim)
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
		}
	}
}

func (s *Scene) job(j *batchv1.Job) {
	j.Status = batchv1.JobStatus{Succeeded: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}
	p := s.pod(j.Name+"-w2x4z", j, j.Spec.Template)
	p.Status = corev1.PodStatus{Phase: corev1.PodSucceeded}
}

func controlledBy(o client.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(o, o.GetObjectKind().GroupVersionKind())}
}

func (s *Scene) pod(name string, owner client.Object, t corev1.PodTemplateSpec) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name, Labels: t.Labels, OwnerReferences: controlledBy(owner)}, Spec: *t.Spec.DeepCopy()}
	p.Spec.NodeName = "node-1"
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: new(metav1.NewTime(Created)), Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Created)},
		{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Created)},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(Created)},
	}}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(Created)}}})
	}
	s.Add(p)
	return p
}

// KindOf is the kind of an object of the scene.
func KindOf(o runtime.Object) schema.GroupVersionKind { return o.GetObjectKind().GroupVersionKind() }
