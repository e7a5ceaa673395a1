package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// TestSettled makes the wish for a child anew only when what it is made from has changed, or
// the child.
func TestSettled(t *testing.T) {
	const basis = 7
	cases := map[string]struct {
		basis           uint64
		uid             string
		resourceVersion string
		change          func(*appsv1.Deployment)
		holdPods        bool
		then            func(*memory)
		want            bool
	}{
		"nothing changed":             {basis: basis, resourceVersion: "100", want: true},
		"the spec changed":            {basis: 8, resourceVersion: "100"},
		"its status changed":          {basis: basis, resourceVersion: "101", want: true},
		"its spec changed":            {basis: basis, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Generation++ }},
		"a label of it changed":       {basis: basis, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "shop"} }},
		"an annotation of it changed": {basis: basis, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Annotations = map[string]string{"app": "shop"} }},
		"it lost its owner":           {basis: basis, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.OwnerReferences = nil }},
		"it is being deleted":         {basis: basis, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }},
		"another child of its name":   {basis: basis, uid: "b", resourceVersion: "100"},
		"its pods have to wait":       {basis: basis, resourceVersion: "100", holdPods: true},
		"nobody knows the basis":      {basis: 0, resourceVersion: "100"},
		"another wish was made since": {basis: basis, resourceVersion: "100", then: func(m *memory) { m.noteSame(webKey, us, wish(t, "httpd"), seen("a", "100", 1), projection{}) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := New(nil, nil, nil, newClock())
			a.memory.noteSame(webKey, us, wish(t, "nginx"), owned(seen("a", "100", 1)), projection{})
			a.memory.settle(webKey, us, basis)
			if tc.then != nil {
				tc.then(&a.memory)
			}
			live := owned(seen("a", tc.resourceVersion, 1))
			if tc.uid != "" {
				live.UID = types.UID(tc.uid)
			}
			if tc.change != nil {
				tc.change(live)
			}
			owner := desired.Owner{Kind: "AppService", Namespace: "shop", Name: "web", UID: us}
			child := desired.Child{ID: webKey.ID, Basis: tc.basis, Render: func(runtime.Object) (*desired.Config, error) {
				return nil, &desired.Refusal{Why: "far enough"}
			}}
			_, err := a.update(context.Background(), owner, child, live, how{holdPods: tc.holdPods})
			if settled := err == nil; settled != tc.want {
				t.Errorf("settled: %t (%v), want %t", settled, err, tc.want)
			}
		})
	}
}

// TestSettledByStatus goes by the status of a child for as long as old pods of it may need what
// new ones do not: when the last one is gone, nothing but the status changes.
func TestSettledByStatus(t *testing.T) {
	m := &New(nil, nil, nil, newClock()).memory
	child := func(resourceVersion string) *appsv1.Deployment {
		d := owned(seen("a", resourceVersion, 1))
		d.Annotations = map[string]string{appsapi.AnnotationDependedOn: "cache"}
		return d
	}
	m.noteSame(webKey, us, wish(t, "nginx"), child("100"), projection{})
	m.settle(webKey, us, 7)
	if !m.settled(webKey, us, 7, child("100")) || m.settled(webKey, us, 7, child("101")) {
		t.Error("a status that the wish goes by was not looked at")
	}
}

// TestSettledWithoutGeneration does not take a change of what has no generation for one of its
// status; nor of what has one that nobody counts.
func TestSettledWithoutGeneration(t *testing.T) {
	service := func(resourceVersion string) client.Object {
		return &corev1.Service{ObjectMeta: seen("a", resourceVersion, 1).ObjectMeta}
	}
	deployment := func(resourceVersion string) client.Object { return seen("a", resourceVersion, 0) }
	for _, child := range []func(string) client.Object{service, deployment} {
		m := &New(nil, nil, nil, newClock()).memory
		m.noteSame(webKey, us, wish(t, "nginx"), child("100"), projection{})
		m.settle(webKey, us, 7)
		if !m.settled(webKey, us, 7, child("100")) || m.settled(webKey, us, 7, child("101")) {
			t.Errorf("a change of %T was not looked at", child("101"))
		}
	}
}

// TestSettledIsForgotten does not take another object for the one that was looked at, because it was written to since.
func TestSettledIsForgotten(t *testing.T) {
	m := &New(nil, nil, nil, newClock()).memory
	m.noteSame(webKey, us, wish(t, "nginx"), seen("a", "100", 1), projection{})
	m.settle(webKey, us, 7)
	m.keep(webKey, us, seen("b", "101", 1), newClock().Now())
	if m.settled(webKey, us, 7, seen("b", "101", 1)) {
		t.Error("another object of the same name counts as looked at")
	}
}

func owned(d *appsv1.Deployment) *appsv1.Deployment {
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{UID: us, Name: "web"}, desired.KindDeployment)}
	return d
}
