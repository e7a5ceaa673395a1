package main

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// TestOperatorRecoversFromAPIServerOutage stops the API server under an active operator, and under
// one that was just started. The operator must work within 30 s after the API server is back,
// without intervention; if it exits, it is restarted as by a kubelet.
func TestOperatorRecoversFromAPIServerOutage(t *testing.T) {
	cases := map[string]struct {
		outage time.Duration
		// startDuringOutage starts the operator only after the API server is stopped.
		startDuringOutage bool
	}{
		"1 s":                 {outage: time.Second},
		"60 s, Lease is lost": {outage: time.Minute},
		"during startup":      {outage: 5 * time.Second, startDuringOutage: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.outage >= time.Minute && os.Getenv("HOLDFAST_LONG") == "" {
				t.Skip("takes long; set HOLDFAST_LONG=1 to run it")
			}
			t.Parallel()
			g := NewWithT(t)
			plane := testutil.ControlPlane(t, controlplane.Options{})
			operator.Install(t, plane)
			ns := testutil.Namespace(t, plane.Config)
			c := kubernetesClient(t, plane)
			op := operator.New(t, plane, operator.Options{LeaderElection: true})
			if !tc.startDuringOutage {
				restartOnExit(t, op)
				g.Expect(op.WaitReady(t.Context())).To(Succeed())
				expectReconciles(g, t, c, ns, "before")
			}
			g.Expect(plane.APIServer.Kill()).To(Succeed())
			if tc.startDuringOutage {
				restartOnExit(t, op)
			}
			time.Sleep(tc.outage) // a real outage
			if tc.startDuringOutage {
				g.Expect(op.Exited()).NotTo(BeClosed(), "exiting would only add restart backoff to the outage")
			}
			g.Expect(plane.APIServer.Start()).To(Succeed())
			g.Expect(plane.WaitReady(t.Context())).To(Succeed())
			start := time.Now()
			expectReconciles(g, t, c, ns, "after")
			t.Logf("works %.1f s after the API server is back", time.Since(start).Seconds())
		})
	}
}

// expectReconciles creates an application and waits for its children.
func expectReconciles(g *WithT, t *testing.T, c client.Client, ns, name string) {
	t.Helper()
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	app.Spec.Image = "shop/web:1"
	g.Eventually(func() error { return c.Create(t.Context(), app) }, "30s", "200ms").Should(Succeed())
	g.Eventually(func() error {
		return c.Get(t.Context(), client.ObjectKeyFromObject(app), &appsv1.Deployment{})
	}, "30s", "100ms").Should(Succeed())
}

// restartOnExit starts the operator and restarts it whenever it exits, as a kubelet does.
func restartOnExit(t *testing.T, op *operator.Operator) {
	t.Helper()
	if err := op.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(done)
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-op.Exited():
			}
			select {
			case <-done:
				return
			case <-time.After(time.Second):
			}
			if err := op.Start(); err != nil {
				t.Errorf("restart: %v", err)
				return
			}
		}
	}()
}

func kubernetesClient(t *testing.T, plane *controlplane.Plane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, appsapi.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.New(plane.Config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
