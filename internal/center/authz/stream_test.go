package authz_test

import (
	"errors"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/center/authz"
)

func (w *world) testOpenStream(t *testing.T) {
	token := w.serviceAccount(t, "stream", "bob")
	w.clusterRole(t, "stream-reader", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}})
	w.bind(t, "stream-reader", subject("stream", "bob"), "stream")
	bob, right := w.impersonate("stream", "bob"), authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Namespace: "stream"}
	w.waitForAccess(t, "the permission of bob", bob, right, true)

	r, clock := newReviewer(t, w.centerConfig, authz.Options{})
	viewer, err := r.StreamViewer(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	here := authz.Scope{Resource: "pods", Namespace: "stream"}
	if !viewer.Allows(here) {
		t.Fatal("denied at first")
	}
	round := func(want bool) {
		t.Helper()
		eventually(t, "the timer of the next re-check", clock.HasWaiters)
		clock.Step(30 * time.Second)
		eventually(t, "the change", func() bool { return signaled(viewer.Changed()) })
		if got := viewer.Allows(here); got != want {
			t.Errorf("allowed: got %t, want %t", got, want)
		}
	}
	if err := w.admin.RbacV1().RoleBindings("stream").Delete(t.Context(), "stream-reader-bob", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waitForAccess(t, "the permission of bob to be revoked", bob, right, false)
	if !viewer.Allows(here) {
		t.Error("noticed before the clock moved, so the next step is not meaningful")
	}
	round(false)
	w.bind(t, "stream-reader", subject("stream", "bob"), "stream")
	w.waitForAccess(t, "the permission of bob to be granted again", bob, right, true)
	round(true)

	if err := w.admin.CoreV1().ServiceAccounts("stream").Delete(t.Context(), "bob", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for !signaled(viewer.Revoked()) {
		if time.Since(began) > 30*time.Second {
			t.Fatal("the stream is still open 30 s after the ServiceAccount was deleted")
		}
		clock.Step(11 * time.Second)
		time.Sleep(100 * time.Millisecond) // the API server caches tokens in real time
	}
	t.Logf("the API server rejected the token %s after its ServiceAccount was deleted", time.Since(began).Round(100*time.Millisecond))
	if !errors.Is(viewer.Err(), authz.ErrInvalidToken) || viewer.Allows(here) {
		t.Errorf("got %v", viewer.Err())
	}
}
