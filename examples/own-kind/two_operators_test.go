package main

import (
	"context"
	"os"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/enginetest"
)

// testTwoOperators runs the operator of Holdfast next to the operator of Guestbooks. An AppStack with
// the name of a Guestbook must not take over its objects.
func testTwoOperators(t *testing.T, plane *enginetest.ControlPlane, c client.Client, g *Guestbook) {
	w := NewWithT(t)
	kubeconfig := plane.Kubeconfig(t, plane.ConfigFor(t, "system:serviceaccount:holdfast-system:holdfast-operator"))
	cmd := exec.Command(enginetest.Program(t, "operator"), "--kubeconfig", kubeconfig,
		"--leader-election-namespace", "holdfast-system", "--metrics-address", "0", "--health-address", "0")
	cmd.Stderr = os.Stderr
	w.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	service := &appsapi.ServiceComponent{}
	service.Image = "example.com/web:1"
	own := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "own"}}
	own.Spec.Image = "example.com/web:1"
	same := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: g.Name}}
	same.Spec.Components = []appsapi.Component{{Name: "web", Service: service}}
	before := deployment(t, c, g)
	w.Expect(c.Create(t.Context(), own)).To(Succeed())
	w.Expect(c.Create(t.Context(), same)).To(Succeed())
	enginetest.WaitReady(t, c, own)
	w.Eventually(func() string {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(same), same); err != nil {
			return err.Error()
		}
		if ready := meta.FindStatusCondition(same.Status.Conditions, appsapi.ConditionReady); ready != nil {
			return ready.Reason + ": " + ready.Message
		}
		return ""
	}, "30s").Should(And(HavePrefix(appsapi.ReasonNameConflict), ContainSubstring(`Guestbook "`+g.Name)))
	w.Expect(c.Delete(t.Context(), same)).To(Succeed())
	enginetest.WaitFor(t, func(ctx context.Context) error {
		return client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(same), same))
	})
	after := deployment(t, c, g)
	w.Expect(after.UID).To(Equal(before.UID))
	w.Expect(after.ManagedFields).To(Equal(before.ManagedFields))
	enginetest.WaitReady(t, c, g)
}

func deployment(t *testing.T, c client.Client, g *Guestbook) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: g.Namespace, Name: g.Name + "-web"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}
