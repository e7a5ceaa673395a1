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

// TestInSync checks that a child is rendered again only if its inputs or the child itself have
// changed.
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
		"nothing changed":           {inputHash: hash, resourceVersion: "100", want: true},
		"inputs changed":            {inputHash: 8, resourceVersion: "100"},
		"status changed":            {inputHash: hash, resourceVersion: "101", want: true},
		"spec of the child changed": {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Generation++ }},
		"label changed":             {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Labels = map[string]string{"app": "shop"} }},
		"annotation changed":        {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.Annotations = map[string]string{"app": "shop"} }},
		"owner reference removed":   {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.OwnerReferences = nil }},
		"being deleted":             {inputHash: hash, resourceVersion: "101", change: func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }},
		"other object of the name":  {inputHash: hash, uid: "b", resourceVersion: "100"},
		"pod template is held":      {inputHash: hash, resourceVersion: "100", holdPodTemplate: true},
		"unknown inputs":            {inputHash: 0, resourceVersion: "100"},
		"other configuration applied since": {inputHash: hash, resourceVersion: "100", then: func(cache *childCache) {
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
			owner := desired.Owner{Keys: appsapi.DefaultKeys, Kind: "AppService", Namespace: "shop", Name: "web", UID: ownerUID}
			child := desired.Child{ID: webKey.ID, InputHash: tc.inputHash, Render: func(runtime.Object) (*desired.Config, error) {
				return nil, &desired.IncompatibleError{Message: "rendered"}
			}}
			_, err := a.update(context.Background(), owner, child, live, updateOptions{holdPodTemplate: tc.holdPodTemplate})
			if inSync := err == nil; inSync != tc.want {
				t.Errorf("in sync: %t (%v), want %t", inSync, err, tc.want)
			}
		})
	}
}

// TestInSyncConsidersStatus checks that a status change counts while old pods may have former
// dependencies: when the last one terminates, only the status changes.
func TestInSyncConsidersStatus(t *testing.T) {
	cache := &New(nil, nil, nil, newClock()).childCache
	child := func(resourceVersion string) *appsv1.Deployment {
		d := withOwner(deploymentAt("a", resourceVersion, 1))
		d.Annotations = map[string]string{appsapi.DefaultKeys.PreviousDependsOn: "cache"}
		return d
	}
	cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), child("100"), divergence{})
	cache.markInSync(webKey, ownerUID, 7)
	if !cache.inSync(appsapi.DefaultKeys, webKey, ownerUID, 7, child("100")) || cache.inSync(appsapi.DefaultKeys, webKey, ownerUID, 7, child("101")) {
		t.Error("a relevant status change was ignored")
	}
}

// TestInSyncWithoutGeneration checks that any change counts for kinds whose generation the API
// server does not maintain.
func TestInSyncWithoutGeneration(t *testing.T) {
	service := func(resourceVersion string) client.Object {
		return &corev1.Service{ObjectMeta: deploymentAt("a", resourceVersion, 1).ObjectMeta}
	}
	deployment := func(resourceVersion string) client.Object { return deploymentAt("a", resourceVersion, 0) }
	for _, child := range []func(string) client.Object{service, deployment} {
		cache := &New(nil, nil, nil, newClock()).childCache
		cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), child("100"), divergence{})
		cache.markInSync(webKey, ownerUID, 7)
		if !cache.inSync(appsapi.DefaultKeys, webKey, ownerUID, 7, child("100")) || cache.inSync(appsapi.DefaultKeys, webKey, ownerUID, 7, child("101")) {
			t.Errorf("a change of %T was ignored", child("101"))
		}
	}
}

// TestInSyncIsResetForNewObject checks that a write to a recreated object does not make it count as
// compared.
func TestInSyncIsResetForNewObject(t *testing.T) {
	cache := &New(nil, nil, nil, newClock()).childCache
	cache.recordMatching(webKey, ownerUID, renderConfig(t, "nginx"), deploymentAt("a", "100", 1), divergence{})
	cache.markInSync(webKey, ownerUID, 7)
	cache.recordWritten(webKey, ownerUID, deploymentAt("b", "101", 1), newClock().Now())
	if cache.inSync(appsapi.DefaultKeys, webKey, ownerUID, 7, deploymentAt("b", "101", 1)) {
		t.Error("a recreated object counts as in sync")
	}
}

func withOwner(d *appsv1.Deployment) *appsv1.Deployment {
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{UID: ownerUID, Name: "web"}, desired.KindDeployment)}
	return d
}
