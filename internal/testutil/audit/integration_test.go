package audit_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

func TestCountByUser(t *testing.T) {
	plane := testutil.SharedControlPlane(t)
	ns := testutil.Namespace(t, plane.Config)
	anna, bob := configMaps(t, plane, "anna", ns), configMaps(t, plane, "bob", ns)
	log, err := audit.Open(plane.AuditLog())
	check(t, err)
	ctx := t.Context()
	start, err := log.Mark(ctx, plane.Config)
	check(t, err)

	for i := range 3 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cm-%d", i)}}
		_, err := anna.Create(ctx, cm, metav1.CreateOptions{})
		check(t, err)
	}
	_, err = anna.Patch(ctx, "cm-1", types.MergePatchType, []byte(`{"data":{"a":"b"}}`), metav1.PatchOptions{})
	check(t, err)
	_, err = anna.List(ctx, metav1.ListOptions{})
	check(t, err)
	check(t, bob.Delete(ctx, "cm-2", metav1.DeleteOptions{}))
	if err := bob.Delete(ctx, "cm-2", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("second delete: got %v, want not found", err)
	}
	stale := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm-0", ResourceVersion: "1"}}
	if _, err := bob.Update(ctx, stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Fatalf("stale update: got %v, want a conflict", err)
	}

	events, err := log.Since(ctx, plane.Config, start)
	check(t, err)
	want := audit.Table{
		{User: "anna", Verb: "create", Resource: "configmaps", Accepted: 3},
		{User: "anna", Verb: "patch", Resource: "configmaps", Accepted: 1},
		{User: "bob", Verb: "delete", Resource: "configmaps", Accepted: 1, Rejected: 1},
		{User: "bob", Verb: "update", Resource: "configmaps", Rejected: 1},
	}
	if diff := cmp.Diff(want, events.In(ns).Writes().Count()); diff != "" {
		t.Error(diff)
	}
	want = audit.Table{{User: "anna", Verb: "list", Resource: "configmaps", Accepted: 1}}
	if diff := cmp.Diff(want, events.By("anna", "bob").Reads().Count()); diff != "" {
		t.Error(diff)
	}
	patch := events.By("anna").Where(func(e *audit.Event) bool { return e.Verb == "patch" })[0]
	if got := string(patch.RequestObject); got != `{"data":{"a":"b"}}` {
		t.Errorf("patch request: got %s", got)
	}
	if patch.ObjectRef.Name != "cm-1" || len(patch.ResponseObject) == 0 {
		t.Errorf("patch: got name %q and a response of %d bytes", patch.ObjectRef.Name, len(patch.ResponseObject))
	}
}

func configMaps(t *testing.T, plane *controlplane.Plane, user, ns string) typedcorev1.ConfigMapInterface {
	t.Helper()
	cfg, err := plane.ConfigFor(user, "system:masters")
	check(t, err)
	client, err := kubernetes.NewForConfig(cfg)
	check(t, err)
	return client.CoreV1().ConfigMaps(ns)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
