package model

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-dev/holdfast/internal/center/store"
)

// TestTenantsCannotJoinApplicationsOfOthers checks that objects do not become part of an application of another
// namespace, whatever their owner references, annotations and events claim.
func TestTenantsCannotJoinApplicationsOfOthers(t *testing.T) {
	s := store.New(IndexTerms, nil)
	m := &Model{Options: Options{Store: s}}
	release := map[string]string{"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "victim"}
	meta := func(kind, namespace, name string) (metav1.TypeMeta, metav1.ObjectMeta) {
		return metav1.TypeMeta{APIVersion: "v1", Kind: kind}, metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + namespace + "-" + name)}
	}
	add := func(namespace, name, owner string, annotations map[string]string) {
		pod, event := &corev1.Pod{}, &corev1.Event{}
		pod.TypeMeta, pod.ObjectMeta = meta("Pod", namespace, name)
		pod.Annotations = annotations
		if owner != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "front", UID: types.UID(owner), Controller: new(true)}}
		}
		event.TypeMeta, event.ObjectMeta = meta("Event", namespace, "event-of-"+name)
		event.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "front", UID: "uid-of-victim-front"}
		s.Set(pod)
		s.Set(event)
	}
	add("victim", "front", "", release)
	add("victim", "child", "uid-of-victim-front", nil)
	add("evil", "annotated", "", release)
	add("evil", "owned", "uid-of-victim-front", nil)

	ref := Ref{"HelmRelease", "victim", "shop"}
	objects := m.members(ref, "")
	for _, o := range m.collectObjects(objects).objects {
		objects = append(objects, s.ByUID(o.(metav1.Object).GetUID()))
	}
	var names []string
	for _, e := range objects {
		if e.Namespace != "victim" {
			t.Errorf("%s/%s is shown in the application of namespace victim", e.Namespace, e.Name)
		}
		names = append(names, e.Name)
	}
	for _, want := range []string{"front", "child", "event-of-front"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, name := range []string{"annotated", "owned", "event-of-owned"} {
		kind := "Pod"
		if name == "event-of-owned" {
			kind = "Event"
		}
		e := s.Get(corev1.SchemeGroupVersion.WithKind(kind).GroupKind(), "evil", name)
		if e == nil {
			t.Fatalf("no %s %s", kind, name)
		}
		if refs := m.affectedApplications(e); slices.Contains(refs, ref) {
			t.Errorf("a change of evil/%s affects %s", name, ref)
		}
	}
}
