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

// TestOperatorRecoversFromAPIServerOutage takes the API server away from an operator that leads, and from one that
// has just been started. It must work within 30 s of the API server's return, restarted
// by a kubelet if it ends, and must not have to be told.
func TestOperatorRecoversFromAPIServerOutage(t *testing.T) {
	cases := map[string]struct {
		outage time.Duration
		// late starts the operator only when the API server is gone.
		startDuringOutage bool
	}{
		"1 s":                             {outage: time.Second},
		"60 s, so that the Lease is lost": {outage: time.Minute},
		"from the start":                  {outage: 5 * time.Second, startDuringOutage: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.outage >= time.Minute && os.Getenv("HOLDFAST_LONG") == "" {
				t.Skip("takes its time: HOLDFAST_LONG=1 runs it")
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
			time.Sleep(tc.outage)
			if tc.startDuringOutage {
				g.Expect(op.Exited()).NotTo(BeClosed(), "ending would only add back-off to the outage")
			}
			g.Expect(plane.APIServer.Start()).To(Succeed())
			g.Expect(plane.WaitReady(t.Context())).To(Succeed())
			start := time.Now()
			expectReconciles(g, t, c, ns, "after")
			t.Logf("works %.1f s after the API server's return", time.Since(start).Seconds())
		})
	}
}

// expectReconciles gives the operator something to do.
func expectReconciles(g *WithT, t *testing.T, c client.Client, ns, name string) {
	t.Helper()
	app := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
	app.Spec.Image = "shop/web:1"
	g.Eventually(func() error { return c.Create(t.Context(), app) }, "30s", "200ms").Should(Succeed())
	g.Eventually(func() error {
		return c.Get(t.Context(), client.ObjectKeyFromObject(app), &appsv1.Deployment{})
	}, "30s", "100ms").Should(Succeed())
}

// restartOnExit starts the operator, and again whenever it ends, as a kubelet does.
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
