package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-dev/holdfast/internal/desired"
	"github.com/holdfast-dev/holdfast/internal/fieldmanager"
)

// singleDeployment is an API server with one Deployment. It counts requests and accepts patches without effect.
type singleDeployment struct {
	client.Client
	live    *appsv1.Deployment
	reads   int
	patches []types.PatchType
}

func (s *singleDeployment) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

func (s *singleDeployment) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	s.live.DeepCopyInto(into.(*appsv1.Deployment))
	return nil
}

func (s *singleDeployment) Patch(_ context.Context, into client.Object, patch client.Patch, _ ...client.PatchOption) error {
	s.patches = append(s.patches, patch.Type())
	s.live.DeepCopyInto(into.(*appsv1.Deployment))
	return nil
}

// probeConflict is a Deployment whose readiness probe another manager has changed.
func probeConflict(t *testing.T) (*singleDeployment, desired.Child) {
	t.Helper()
	child := buildComponent(t, shop, `{image: nginx, ports: [{port: 80}]}`).Children[0]
	_, obj, _ := renderApplied(t, child)
	live := obj.(*appsv1.Deployment)
	live.UID, live.ResourceVersion, live.Generation, live.Namespace = "a", "100", 1, shop.Namespace
	live.Spec.Template.Spec.Containers[0].ReadinessProbe.ProbeHandler = corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}
	live.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl-edit", Operation: "Update", APIVersion: "apps/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"app\"}":{"f:readinessProbe":{"f:httpGet":{".":{},"f:port":{}}}}}}}}}`)}}
	return &singleDeployment{live: live}, child
}

// cached returns the Deployment as the cache has it.
func (s *singleDeployment) cached() *appsv1.Deployment {
	d := s.live.DeepCopy()
	d.ManagedFields = nil
	return d
}

// TestFieldConflictIsReported checks that nothing is written without permission, and that the same
// version is not read twice.
func TestFieldConflictIsReported(t *testing.T) {
	server, child := probeConflict(t)
	clock := newClock()
	a := New(server, server, server, clock)
	steps := []struct {
		name   string
		change func(*appsv1.Deployment)
		wait   time.Duration
		reads  int
	}{
		{name: "first", reads: 1},
		{name: "nothing changed", wait: time.Hour, reads: 1},
		{name: "new status", change: func(d *appsv1.Deployment) { d.ResourceVersion = "101" }, reads: 2},
		{name: "new status soon after", change: func(d *appsv1.Deployment) { d.ResourceVersion = "102" }, reads: 2},
		{name: "new spec", change: func(d *appsv1.Deployment) { d.ResourceVersion, d.Generation = "103", 2 }, reads: 3},
		{name: "new status later", change: func(d *appsv1.Deployment) { d.ResourceVersion = "104" }, wait: cacheLagTolerance, reads: 4},
		{name: "new annotation", change: func(d *appsv1.Deployment) {
			d.ResourceVersion, d.Annotations["apps.holdfast.dev/take-ownership"] = "105", "false"
		}, reads: 5},
	}
	for _, step := range steps {
		clock.SetTime(clock.Now().Add(step.wait))
		if step.change != nil {
			step.change(server.live)
		}
		result, err := a.Apply(t.Context(), shop, child, server.cached(), false)
		var conflict *fieldmanager.FieldConflict
		if !errors.As(err, &conflict) || len(result.TakenOver) > 0 {
			t.Fatalf("%s: got %v, %v", step.name, err, result.TakenOver)
		}
		if server.reads != step.reads || len(server.patches) > 0 {
			t.Errorf("%s: %d reads, patches %v", step.name, server.reads, server.patches)
		}
		if result.RequeueAfter > 0 || result.ContentionRemaining > 0 {
			t.Errorf("%s: conflicts count as repairs", step.name)
		}
	}
	const want = `Deployment shop/web: field spec.template.spec.containers[app].readinessProbe.httpGet is set by field manager "kubectl-edit" and conflicts with ` +
		`spec.template.spec.containers[app].readinessProbe.tcpSocket, which AppService web declares; revert that change (kubectl edit deployment web -n shop), ` +
		`or let Holdfast revert it: kubectl annotate deployment web -n shop apps.holdfast.dev/take-ownership=true`
	if _, err := a.Apply(t.Context(), shop, child, server.cached(), false); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// TestFieldConflictIsReportedFromStaleCache checks that the status does not alternate between the
// conflict and a stale cache.
func TestFieldConflictIsReportedFromStaleCache(t *testing.T) {
	server, child := probeConflict(t)
	stale := server.cached()
	server.live.ResourceVersion = "101"
	_, err := New(server, server, server, newClock()).Apply(t.Context(), shop, child, stale, false)
	var conflict *fieldmanager.FieldConflict
	if !errors.As(err, &conflict) {
		t.Errorf("got %v", err)
	}
}

// TestTakeover checks that the entry of another manager is rewritten only with permission, and only
// in the observed version.
func TestTakeover(t *testing.T) {
	for annotation, permitted := range map[string]bool{"apps.holdfast.dev/take-ownership": true, "apps.holdfast.dev/adopt": true, "example.com/other": false} {
		server, child := probeConflict(t)
		server.live.Annotations[annotation] = "true"
		a := New(server, server, server, clocktesting.NewFakePassiveClock(time.Now()))
		stale := server.cached()
		stale.ResourceVersion = "99"
		if _, err := a.Apply(t.Context(), shop, child, stale, false); err == nil || len(server.patches) > 0 {
			t.Errorf("%s, stale: %v, patches %v", annotation, err, server.patches)
		}
		result, err := a.Apply(t.Context(), shop, child, server.cached(), false)
		if (err == nil) != permitted || (len(server.patches) == 2) != permitted || (len(result.TakenOver) == 1) != permitted {
			t.Errorf("%s: %v, patches %v, taken over %v", annotation, err, server.patches, result.TakenOver)
		}
	}
}

// TestOwnEarlierFieldIsNoConflict checks that replacing a field that only we own is applied at
// once.
func TestOwnEarlierFieldIsNoConflict(t *testing.T) {
	server, child := probeConflict(t)
	server.live.ManagedFields[0].Manager, server.live.ManagedFields[0].Operation = "holdfast", "Apply"
	result, err := New(server, server, server, newClock()).Apply(t.Context(), shop, child, server.cached(), false)
	if err != nil || len(result.TakenOver) > 0 || len(server.patches) != 1 || server.patches[0] != types.ApplyPatchType {
		t.Errorf("%v, taken over %v, patches %v", err, result.TakenOver, server.patches)
	}
}
