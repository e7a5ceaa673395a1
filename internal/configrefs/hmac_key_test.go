package configrefs

import (
	"context"
	"encoding/json"
	"maps"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/rollout"
)

// secrets is an API server with one Secret of an application. It keeps the HMAC key until the key is deleted.
type secrets struct {
	client.Client
	corev1.Secret
	key   *corev1.Secret
	reads int
}

func (s *secrets) Get(_ context.Context, name client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch o := into.(type) {
	case *metav1.PartialObjectMetadata:
		o.ObjectMeta = metav1.ObjectMeta{UID: s.UID, ResourceVersion: s.ResourceVersion}
	case *corev1.Secret:
		if name.Name == hmacKeySecretName {
			if s.key == nil {
				return apierrors.NewNotFound(corev1.Resource("secrets"), name.Name)
			}
			s.key.DeepCopyInto(o)
			return nil
		}
		s.reads++
		s.DeepCopyInto(o)
	}
	return nil
}

func (s *secrets) Create(_ context.Context, obj client.Object, _ ...client.CreateOption) error {
	s.key = obj.(*corev1.Secret).DeepCopy()
	return nil
}

// TestLostHMACKeyReplacesNoPods deletes the key, as the deletion of the operator's namespace does, and then changes the
// Secret: first a key that the pods do not use, then one that they use.
func TestLostHMACKeyReplacesNoPods(t *testing.T) {
	server := &secrets{Secret: corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "7"}, Data: map[string][]byte{"a": []byte("1")}}}
	owner := desired.Owner{Keys: appsapi.DefaultKeys, Kind: "AppStack", Namespace: "shop", Name: "shop", UID: "uid"}
	components := desired.ExpandComponents([]appsapi.Component{{Name: "web", Service: &appsapi.ServiceComponent{ServerSpec: appsapi.ServerSpec{
		ContainerSpec: appsapi.ContainerSpec{Image: "web", Env: []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "a"}}}}},
	}}}})
	var live *appsv1.Deployment
	startOperator := func() *HashCache {
		return New(owner.Keys, server, server, NewHMACKey(owner.Keys, "holdfast-system", server, server))
	}
	c := startOperator()
	// reconcile applies the Deployment and reports whether its pods are replaced.
	reconcile := func() bool {
		t.Helper()
		seen, current := rollout.Observed{}, runtime.Object(nil)
		if live != nil {
			seen[desired.ID{Kind: desired.KindDeployment, Name: "shop-web"}], current = live, live
		}
		states, err := c.HashesFor(t.Context(), types.NamespacedName{Namespace: "shop", Name: "shop"}, components, seen, nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := desired.Build(owner, components, desired.ClusterState{RefStates: states})[0].Children[0].Render(current)
		if err != nil {
			t.Fatal(err)
		}
		body, err := config.Patch("", "1")
		if err != nil {
			t.Fatal(err)
		}
		applied := decodeDeployment(t, body)
		replaces := live != nil && !maps.Equal(live.Spec.Template.Annotations, applied.Spec.Template.Annotations)
		live = applied
		return replaces
	}
	change := func(version, key, value string) {
		server.ResourceVersion, server.Data[key] = version, []byte(value)
	}
	reconcile()
	if reconcile() {
		t.Fatal("pods are replaced without a change")
	}
	reads := server.reads
	if c = startOperator(); reconcile() || server.reads != reads {
		t.Errorf("a restart reads the Secret %d times", server.reads-reads)
	}
	server.key = nil
	if c = startOperator(); reconcile() {
		t.Error("pods are replaced after the loss of the key")
	}
	if change("8", "unused", "x"); reconcile() {
		t.Error("pods are replaced although only an unused key changed")
	}
	if c = startOperator(); reconcile() {
		t.Error("pods are replaced by a restart after the loss of the key")
	}
	if change("9", "a", "2"); !reconcile() {
		t.Error("pods are not replaced although their key changed")
	}
	if reconcile() {
		t.Error("pods are replaced twice")
	}
}

func decodeDeployment(t *testing.T, body []byte) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(body, d); err != nil {
		t.Fatal(err)
	}
	return d
}
