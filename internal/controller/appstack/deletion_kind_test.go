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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

// definition is that of our kind.
func definition() client.Object {
	crd := &unstructured.Unstructured{}
	crd.SetName("appstacks.apps.holdfast.dev")
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	return crd
}

// testKind takes the kind away from an operator that runs, from one that is down, and from
// one that starts.
func testKind(t *testing.T, s *stage.Stage) {
	t.Run("running", func(t *testing.T) {
		eye, pid := openEye(t, s), s.Operator.Pid()
		e, plain := &ending{world: newWorld(t, s), eye: eye}, &ending{world: newWorld(t, s), eye: eye}
		data := &vault{ending: &ending{world: newWorld(t, s), eye: eye}, way: "kind"}
		e.create(diamond)
		plain.create(loner)
		data.create(withData)
		e.becomesReady()
		plain.becomesReady()
		data.becomesReady()
		data.before = data.treasure()
		e.loses(definition())
		e.isGone()
		plain.isGone()
		data.over()
		e.wentInOrder()
		worksWithout(e.world, "after")
		e.Expect(s.Operator.Pid()).To(Equal(pid), "the operator was restarted")
	})
	t.Run("back", func(t *testing.T) { onlyLong(t); kindComesBack(t, s) })
	t.Run("down", func(t *testing.T) {
		onlyLong(t)
		e := &ending{world: newWorld(t, s), eye: openEye(t, s)}
		data := &vault{ending: &ending{world: newWorld(t, s), eye: e.eye}, way: "kind"}
		data.runs(withData)
		data.before = data.treasure()
		e.runs(chain)
		e.Expect(s.Operator.Kill()).To(Succeed())
		e.Expect(e.Delete(e.Context(), definition())).To(Succeed())
		time.Sleep(90 * time.Second) // the API server gives up after a minute, and tries again later
		e.Expect(s.Operator.Start()).To(Succeed())
		back := time.Now()
		e.disappears(definition())
		t.Logf("the kind is gone %.1f s after the operator's return", time.Since(back).Seconds())
		e.isGone()
		e.wentInOrder()
		data.over()
	})
	t.Run("absent", func(t *testing.T) {
		w := newWorld(t, s)
		w.Expect(s.Operator.Kill()).To(Succeed())
		w.Expect(s.Operator.Start()).To(Succeed())
		start := time.Now()
		worksWithout(w, "early")
		t.Logf("AppServices work %.1f s after the start", time.Since(start).Seconds())
		w.Expect(s.Operator.WaitReady(t.Context())).To(Succeed())
		t.Logf("ready %.1f s after the start", time.Since(start).Seconds())
		kindComesBack(t, s)
		worksWithout(w, "late")
	})
}

// worksWithout proves that other kinds do not need ours.
func worksWithout(w *world, name string) {
	w.Helper()
	app := &appsapi.AppService{ObjectMeta: w.meta(name)}
	app.Spec.Image = "shop/web:1"
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	w.BecomesReady(app)
}

// kindComesBack installs the kind and waits until a stack works.
func kindComesBack(t *testing.T, s *stage.Stage) {
	t.Helper()
	w, pid := newWorld(t, s), s.Operator.Pid()
	root, err := operator.Root()
	w.Expect(err).NotTo(HaveOccurred())
	_, err = s.Plane.InstallCRDs(filepath.Join(root, "config", "crd"))
	w.Expect(err).NotTo(HaveOccurred())
	start := time.Now()
	w.create(shop)
	w.becomesReady()
	t.Logf("a stack is ready %.1f s after its kind was installed", time.Since(start).Seconds())
	w.Expect(s.Operator.Pid()).To(Equal(pid), "the operator was restarted")
}
