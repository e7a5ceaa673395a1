package appstack_test

import (
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// appStackCRD returns the CRD of AppStacks.
func appStackCRD() client.Object {
	crd := &unstructured.Unstructured{}
	crd.SetName("appstacks.apps.holdfast.dev")
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd
}

// testCRDDeletion deletes the CRD while the operator runs, while it is down, and while it starts.
func testCRDDeletion(t *testing.T, s *harness.Harness) {
	t.Run("running", func(t *testing.T) {
		observer, pid := startDeletionWatcher(t, s), s.Operator.Pid()
		e, single := &deletionCase{world: newWorld(t, s), watcher: observer}, &deletionCase{world: newWorld(t, s), watcher: observer}
		data := &dataDeletionCase{deletionCase: &deletionCase{world: newWorld(t, s), watcher: observer}, method: "kind"}
		e.create(diamondSpec)
		single.create(singleServiceSpec)
		data.create(statefulSpec)
		e.waitReady()
		single.waitReady()
		data.waitReady()
		data.before = data.retainedData()
		e.deleteEnclosing(appStackCRD())
		e.waitAllGone()
		single.waitAllGone()
		data.expectDataOutcome()
		e.expectDeletionOrder()
		expectAppServiceWorks(e.world, "after")
		e.Expect(s.Operator.Pid()).To(Equal(pid), "the operator is not restarted")
	})
	t.Run("back", func(t *testing.T) { skipUnlessLong(t); reinstallCRD(t, s) })
	t.Run("down", func(t *testing.T) {
		skipUnlessLong(t)
		e := &deletionCase{world: newWorld(t, s), watcher: startDeletionWatcher(t, s)}
		data := &dataDeletionCase{deletionCase: &deletionCase{world: newWorld(t, s), watcher: e.watcher}, method: "kind"}
		data.createAndWaitIdle(statefulSpec)
		data.before = data.retainedData()
		e.createAndWaitIdle(chainSpec)
		e.Expect(s.Operator.Kill()).To(Succeed())
		e.Expect(e.Delete(e.Context(), appStackCRD())).To(Succeed())
		time.Sleep(90 * time.Second) // the API server gives up after a minute and retries later
		e.Expect(s.Operator.Start()).To(Succeed())
		restartedAt := time.Now()
		e.waitGone(appStackCRD())
		t.Logf("the CRD is deleted %.1f s after the restart of the operator", time.Since(restartedAt).Seconds())
		e.waitAllGone()
		e.expectDeletionOrder()
		data.expectDataOutcome()
	})
	t.Run("absent", func(t *testing.T) {
		w := newWorld(t, s)
		w.Expect(s.Operator.Kill()).To(Succeed())
		w.Expect(s.Operator.Start()).To(Succeed())
		start := time.Now()
		expectAppServiceWorks(w, "early")
		t.Logf("AppServices work %.1f s after the start", time.Since(start).Seconds())
		w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
		t.Logf("ready %.1f s after the start", time.Since(start).Seconds())
		reinstallCRD(t, s)
		expectAppServiceWorks(w, "late")
	})
}

// expectAppServiceWorks checks that other kinds do not depend on the CRD.
func expectAppServiceWorks(w *world, name string) {
	w.Helper()
	app := &appsapi.AppService{ObjectMeta: w.objectMeta(name)}
	app.Spec.Image = "shop/web:1"
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	w.WaitReady(app)
}

// reinstallCRD installs the CRD and waits until a stack is ready.
func reinstallCRD(t *testing.T, s *harness.Harness) {
	t.Helper()
	w, pid := newWorld(t, s), s.Operator.Pid()
	root, err := operator.RepoRoot()
	w.Expect(err).NotTo(HaveOccurred())
	_, err = s.Plane.InstallCRDs(filepath.Join(root, "config", "crd"))
	w.Expect(err).NotTo(HaveOccurred())
	start := time.Now()
	w.create(shop)
	w.waitReady()
	t.Logf("a stack is ready %.1f s after its CRD was installed", time.Since(start).Seconds())
	w.Expect(s.Operator.Pid()).To(Equal(pid), "the operator is not restarted")
}
