package apply

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
)

// repairingServer is an API server with one Deployment that another manager has changed. A patch restores it.
type repairingServer struct {
	*singleDeployment
	restored *appsv1.Deployment
}

func (s *repairingServer) Patch(_ context.Context, into client.Object, patch client.Patch, _ ...client.PatchOption) error {
	s.patches = append(s.patches, patch.Type())
	s.restored.DeepCopyInto(into.(*appsv1.Deployment))
	return nil
}

// newDrift returns a Deployment in which a manager has set another image.
func newDrift(t *testing.T, manager string) (*repairingServer, desired.Child) {
	t.Helper()
	child := buildComponent(t, shop, `{image: nginx, ports: [{port: 80}]}`).Children[0]
	_, obj, _ := renderApplied(t, child)
	restored := obj.(*appsv1.Deployment)
	restored.UID, restored.ResourceVersion, restored.Generation, restored.Namespace = "a", "101", 3, shop.Namespace
	live := restored.DeepCopy()
	live.ResourceVersion, live.Generation = "100", 2
	live.Spec.Template.Spec.Containers[0].Image = "other"
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: shop.Keys.FieldManager, Operation: "Apply", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + shop.Keys.AppliedHash + `":{}}}}`)},
		{Manager: manager, Operation: "Update", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:image":{}}}}}}}`)},
	}
	return &repairingServer{&singleDeployment{live: live}, restored}, child
}

// TestDriftCorrectionNamesItsManager checks the description of a correction, and that finding the manager
// costs one read per minute.
func TestDriftCorrectionNamesItsManager(t *testing.T) {
	server, child := newDrift(t, "kubectl-set")
	clock := newClock()
	a := New(server, server, server, clock)
	repair := func() Result {
		t.Helper()
		result, err := a.Apply(t.Context(), shop, child, server.cached(), false)
		if err != nil || result.Action != Repaired || len(result.Fields) != 1 {
			t.Fatalf("got %+v, %v", result, err)
		}
		return result
	}
	result := repair()
	if f := result.Fields[0]; f.Path.String() != "spec.template.spec.containers[app].image" || f.Old != "other" || f.New != "nginx" {
		t.Errorf("got %+v", f)
	}
	if !slices.Equal(result.DriftManagers, []string{"kubectl-set"}) || server.reads != 1 {
		t.Errorf("managers %v after %d reads", result.DriftManagers, server.reads)
	}
	if result = repair(); len(result.DriftManagers) > 0 || server.reads != 1 {
		t.Errorf("soon after: managers %v after %d reads", result.DriftManagers, server.reads)
	}
	clock.SetTime(clock.Now().Add(driftReadInterval))
	if result = repair(); len(result.DriftManagers) != 1 || server.reads != 2 {
		t.Errorf("a minute later: managers %v after %d reads", result.DriftManagers, server.reads)
	}
}

// TestOwnEarlierWriteIsNoDrift applies over the write of another process of the operator, for example of an
// earlier leader.
func TestOwnEarlierWriteIsNoDrift(t *testing.T) {
	server, child := newDrift(t, "kubectl-set")
	a := New(server, server, server, newClock())
	if _, err := a.Apply(t.Context(), shop, child, server.cached(), false); err != nil { // the fingerprint is known
		t.Fatal(err)
	}
	for what, tc := range map[string]struct {
		annotation string
		action     Action
	}{
		"other client changes the annotation": {"", Repaired},
		"other operator applies":              {"other-hash", Updated},
	} {
		a.childCache.entry(key{child.ID, shop.Namespace}, shop.UID).driftObservedAt = newClock().Now().Add(-driftReadInterval)
		server.live.Annotations[shop.Keys.AppliedHash] = tc.annotation
		result, err := a.Apply(t.Context(), shop, child, server.cached(), false)
		if err != nil || result.Action != tc.action {
			t.Errorf("%s: got %s, %v", what, result.Action, err)
		}
	}
}

// deletingServer is an API server with one Deployment that can be deleted, and its owner.
type deletingServer struct {
	client.Client
	live *appsv1.Deployment
}

func (s *deletingServer) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

func (s *deletingServer) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	d, ok := into.(*appsv1.Deployment)
	if !ok {
		into.SetUID(shop.UID)
		return nil
	}
	if s.live == nil {
		return apierrors.NewNotFound(appsv1.Resource("deployments"), key.Name)
	}
	s.live.DeepCopyInto(d)
	return nil
}

func (s *deletingServer) Patch(_ context.Context, into client.Object, patch client.Patch, _ ...client.PatchOption) error {
	body, err := patch.Data(into)
	if err != nil {
		return err
	}
	s.live = &appsv1.Deployment{}
	if err := json.Unmarshal(body, s.live); err != nil {
		return err
	}
	s.live.UID, s.live.ResourceVersion, s.live.Generation = "a", "100", 1
	s.live.DeepCopyInto(into.(*appsv1.Deployment))
	return nil
}

func (s *deletingServer) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	s.live = nil
	return nil
}

// TestRecreatedChild checks that only deletions by other clients count as drift.
func TestRecreatedChild(t *testing.T) {
	server := &deletingServer{}
	child := buildComponent(t, shop, `{image: nginx, ports: [{port: 80}]}`).Children[0]
	a := New(server, server, server, newClock())
	apply := func() Result {
		t.Helper()
		result, err := a.Apply(t.Context(), shop, child, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	actions := []Action{apply().Action}
	server.live = nil // another client
	second := apply()
	if _, err := a.Remove(t.Context(), shop, child.ID, second.Object); err != nil {
		t.Fatal(err)
	}
	if actions = append(actions, second.Action, apply().Action); !slices.Equal(actions, []Action{Created, Recreated, Created}) {
		t.Errorf("got %v", actions)
	}
}
