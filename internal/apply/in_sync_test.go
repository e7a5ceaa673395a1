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

// TestInSync makes the wish for a child anew only when what it is made from has changed, or
// the child.
func TestInSync(t *testing.T) {
	const hash = 7
	cases := map[string]struct {
		inputHash       uint64
		uid             string
		resourceVersion string
		change          func(*appsv1.Deployment)
		holdPodTemplate bool
		then            func(*childCache)
		want            bool
	}{
		"nothing changed":             {inputHash: hash, resourceVersion: "100", want: true},
		"the spec changed":            {inputHash: 8, resourceVersion: "100"},
		"its status changed":          {inputHash: hash, resourceVersion: "101", want: true},
		"its spec changed":            {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Generation++ }},
		"a label of it changed":       {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "shop"} }},
		"an annotation of it changed": {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Annotations = map[string]string{"app": "shop"} }},
		"it lost its owner":           {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.OwnerReferences = nil }},
		"it is being deleted":         {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }},
		"another child of its name":   {inputHash: hash, uid: "b", resourceVersion: "100"},
		"its pods have to wait":       {inputHash: hash, resourceVersion: "100", holdPodTemplate: true},
		"nobody knows the basis":      {inputHash: 0, resourceVersion: "100"},
		"another wish was made since": {inputHash: hash, resourceVersion: "100", then: func(cache *childCache) {
			cache.recordMatching(webKey, ownerUID, renderConfig(t, "httpd"), deploymentAt("a", "100", 1), divergence{})
		}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := New(nil, nil, nil, newClock())
			a.childCache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), withOwner(deploymentAt("a", "100", 1)), divergence{})
			a.childCache.markInSync(webKey, ownerUID, hash)
			if tc.then != nil {
				tc.then(&a.childCache)
			}
			live := withOwner(deploymentAt("a", tc.resourceVersion, 1))
			if tc.uid != "" {
				live.UID = types.UID(tc.uid)
			}
			if tc.change != nil {
				tc.change(live)
			}
			owner := desired.Owner{Kind: "AppService", Namespace: "shop", Name: "web", UID: ownerUID}
			child := desired.Child{ID: webKey.ID, InputHash: tc.inputHash, Render: func(runtime.Object) (*desired.Config, error) {
				return nil, &desired.IncompatibleError{Message: "far enough"}
			}}
			_, err := a.update(context.Background(), owner, child, live, updateOptions{holdPodTemplate: tc.holdPodTemplate})
			if inSync := err == nil; inSync != tc.want {
				t.Errorf("settled: %t (%v), want %t", inSync, err, tc.want)
			}
		})
	}
}

// TestInSyncConsidersStatus goes by the status of a child for as long as old pods of it may need what
// new ones do not: when the last one is gone, nothing but the status changes.
func TestInSyncConsidersStatus(t *testing.T) {
	cache := &New(nil, nil, nil, newClock()).childCache
	child := func(resourceVersion string) *appsv1.Deployment {
		d := withOwner(deploymentAt("a", resourceVersion, 1))
		d.Annotations = map[string]string{appsapi.AnnotationPreviousDependsOn: "cache"}
		return d
	}
	cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), child("100"), divergence{})
	cache.markInSync(webKey, ownerUID, 7)
	if !cache.inSync(webKey, ownerUID, 7, child("100")) || cache.inSync(webKey, ownerUID, 7, child("101")) {
		t.Error("a status that the wish goes by was not looked at")
	}
}

// TestInSyncWithoutGeneration does not take a change of what has no generation for one of its
// status; nor of what has one that nobody counts.
func TestInSyncWithoutGeneration(t *testing.T) {
	service := func(resourceVersion string) client.Object {
		return &corev1.Service{ObjectMeta: deploymentAt("a", resourceVersion, 1).ObjectMeta}
	}
	deployment := func(resourceVersion string) client.Object { return deploymentAt("a", resourceVersion, 0) }
	for _, child := range []func(string) client.Object{service, deployment} {
		cache := &New(nil, nil, nil, newClock()).childCache
		cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), child("100"), divergence{})
		cache.markInSync(webKey, ownerUID, 7)
		if !cache.inSync(webKey, ownerUID, 7, child("100")) || cache.inSync(webKey, ownerUID, 7, child("101")) {
			t.Errorf("a change of %T was not looked at", child("101"))
		}
	}
}

// TestInSyncIsResetForNewObject does not take another object for the one that was looked at, because it was written to since.
func TestInSyncIsResetForNewObject(t *testing.T) {
	cache := &New(nil, nil, nil, newClock()).childCache
	cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{})
	cache.markInSync(webKey, ownerUID, 7)
	cache.recordWritten(webKey, ownerUID, deploymentAt("b", "101", 1), newClock().Now())
	if cache.inSync(webKey, ownerUID, 7, deploymentAt("b", "101", 1)) {
		t.Error("another object of the same name counts as looked at")
	}
}

func withOwner(d *appsv1.Deployment) *appsv1.Deployment {
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{UID: ownerUID, Name: "web"}, desired.KindDeployment)}
	return d
}
