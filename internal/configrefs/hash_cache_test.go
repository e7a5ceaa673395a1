package configrefs

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
)

// countingConfigMap is a reader of one ConfigMap that counts reads of its content.
type countingConfigMap struct {
	client.Reader
	corev1.ConfigMap
	reads int
}

func (s *countingConfigMap) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = metav1.ObjectMeta{UID: s.UID, ResourceVersion: s.ResourceVersion}
	case *corev1.ConfigMap:
		s.reads++
		s.DeepCopyInto(o)
	}
	return nil
}

// componentWithKeys returns a component that references some keys of the ConfigMap.
func componentWithKeys(name string, keys ...string) appsapi.Component {
	c := appsapi.Component{Name: name, Service: &appsapi.ServiceComponent{}}
	for _, key := range keys {
		c.Service.Env = append(c.Service.Env, corev1.EnvVar{Name: key, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: key}}})
	}
	return c
}

// TestConfigRefVersionIsReadOnce checks that each version is read once, even if components reference
// different keys.
func TestConfigRefVersionIsReadOnce(t *testing.T) {
	s := &countingConfigMap{ConfigMap: corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7"}, Data: map[string]string{"a": "1", "b": "1", "c": "1"},
	}}
	c := New(appsapi.DefaultKeys, s, s, nil)
	lookup := func() desired.RefStates {
		t.Helper()
		known, err := c.HashesFor(t.Context(), types.NamespacedName{Namespace: "shop", Name: "shop"},
			desired.ExpandComponents([]appsapi.Component{componentWithKeys("web", "a"), componentWithKeys("api", "b"), componentWithKeys("both", "b", "a")}), nil, nil)
		if err != nil || len(known) != 3 {
			t.Fatalf("got %v, %v", known, err)
		}
		return known
	}
	before := lookup()
	lookup()
	if s.reads != 1 {
		t.Errorf("read %d times", s.reads)
	}
	s.ResourceVersion, s.Data = "8", map[string]string{"a": "1", "b": "2", "c": "2"}
	after := lookup()
	if s.reads != 2 {
		t.Errorf("the next version was read %d times", s.reads-1)
	}
	for keys, same := range map[string]bool{"a": true, "b": false, "a,b": false} {
		ref := desired.Ref{Kind: desired.RefConfigMap, Name: "settings", Keys: keys}
		if (before[ref].Hash == after[ref].Hash) != same {
			t.Errorf("keys %s: %v, then %v", keys, before[ref], after[ref])
		}
	}
}

// countingEmptyReader is a reader without objects that counts its calls.
type countingEmptyReader struct {
	client.Reader
	reads int
}

func (n *countingEmptyReader) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	n.reads++
	return apierrors.NewNotFound(corev1.Resource("configmaps"), key.Name)
}

// TestConfigRefMissingFromCacheIsReadOnce checks that an object that the cache lacks is read from the API
// server, and only once if it does not exist.
func TestConfigRefMissingFromCacheIsReadOnce(t *testing.T) {
	app := types.NamespacedName{Namespace: "shop", Name: "shop"}
	lookup := func(c *HashCache) int {
		t.Helper()
		known, err := c.HashesFor(t.Context(), app, desired.ExpandComponents([]appsapi.Component{componentWithKeys("web", "a")}), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return len(known)
	}
	live := &countingConfigMap{ConfigMap: corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7"}, Data: map[string]string{"a": "1"}}}
	if lookup(New(appsapi.DefaultKeys, &countingEmptyReader{}, live, nil)) != 1 {
		t.Error("an existing object counts as missing")
	}
	apiServer := &countingEmptyReader{}
	c := New(appsapi.DefaultKeys, &countingEmptyReader{}, apiServer, nil)
	if lookup(c)+lookup(c) != 0 || apiServer.reads != 1 {
		t.Errorf("the missing object was read %d times", apiServer.reads)
	}
	c.cache, c.apiReader = live, live
	if lookup(c) != 1 {
		t.Error("the created object still counts as missing")
	}
	c.cache, c.apiReader = &countingEmptyReader{}, apiServer
	if lookup(c) != 0 || apiServer.reads != 2 {
		t.Errorf("the deleted object was read %d times", apiServer.reads-1)
	}
}
