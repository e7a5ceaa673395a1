package peers

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/bench/contender"
)

const (
	apps        = 20
	workers     = 8
	waitTimeout = 2 * time.Minute
	// settleTime without requests means that a peer is idle.
	settleTime = 5 * time.Second
)

// TestPeers runs the workload of the driver with every peer and prints the cost.
func TestPeers(t *testing.T) {
	for _, c := range contender.All() {
		t.Run(c.Name, func(t *testing.T) { runPeer(t, &c) })
	}
}

func runPeer(t *testing.T, c *contender.Contender) {
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	ctrl.SetLogger(logr.Discard()) // otherwise it logs a warning
	c.Start(t, plane, workers)
	s := &harness{T: t, contender: c, namespace: testutil.Namespace(t, plane.Config)}
	var err error
	s.Client, err = client.New(plane.Config, client.Options{Scheme: clientgoscheme.Scheme})
	s.must(err)
	log, err := audit.Open(plane.AuditLog())
	s.must(err)
	from, err := log.Mark(t.Context(), plane.Config)
	s.must(err)

	start := time.Now()
	for i := range apps {
		s.must(s.Create(t.Context(), c.App(s.namespace, appName(i), "shop/web:1", 0)))
	}
	took := s.waitReady(start)
	s.verifyChildren()

	time.Sleep(settleTime)
	all, err := log.Since(t.Context(), plane.Config, from)
	s.must(err)
	// Lease and cache refreshes are not related to an application.
	requests := all.By(c.User()).In(s.namespace)
	if len(requests.Writes()) < 3*apps {
		t.Errorf("got %d writes for %d applications with two children and a status each, want more", len(requests.Writes()), apps)
	}
	t.Logf("%s: %d applications ready after %.2f s, with %.1f requests each, %.1f of them writes\n%s", c.Name, apps, took.Seconds(),
		float64(len(requests))/apps, float64(len(requests.Writes()))/apps, requests.Count())

	s.changeImage(0)
	s.deleteApp(1)
}

type harness struct {
	*testing.T
	client.Client
	contender *contender.Contender
	namespace string
}

func (s *harness) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func appName(i int) string { return fmt.Sprintf("app-%02d", i) }

func (s *harness) key(i int) client.ObjectKey {
	return client.ObjectKey{Namespace: s.namespace, Name: appName(i)}
}

// waitReady returns the time until all applications are ready.
func (s *harness) waitReady(start time.Time) time.Duration {
	s.Helper()
	for {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(s.contender.Kind.GroupVersion().WithKind(s.contender.Kind.Kind + "List"))
		s.must(s.List(s.Context(), list, client.InNamespace(s.namespace)))
		took, ready := time.Since(start), 0
		for i := range list.Items {
			if s.contender.Ready(&list.Items[i]) {
				ready++
			}
		}
		if ready == apps {
			return took
		}
		if took > waitTimeout {
			s.Fatalf("%d of %d are ready after %s; the first: %v", ready, apps, waitTimeout, list.Items[0].Object)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// changeImage changes the image of an application and waits for its Deployment.
func (s *harness) changeImage(i int) {
	s.Helper()
	app := s.contender.App(s.namespace, appName(i), "", 0)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"shop/web:2"}}`))
	s.must(s.Patch(s.Context(), app, patch))
	s.eventually("the Deployment to have the new image", func() bool {
		var d appsv1.Deployment
		s.must(s.Get(s.Context(), s.key(i), &d))
		return d.Spec.Template.Spec.Containers[0].Image == "shop/web:2"
	})
	s.eventually("the changed application to be ready", func() bool {
		s.must(s.Get(s.Context(), s.key(i), app))
		return s.contender.Ready(app)
	})
}

// deleteApp deletes an application and waits until its children are deleted.
func (s *harness) deleteApp(i int) {
	s.Helper()
	app := s.contender.App(s.namespace, appName(i), "", 0)
	s.must(s.Delete(s.Context(), app))
	for _, obj := range []client.Object{app, &appsv1.Deployment{}, &corev1.Service{}} {
		s.eventually(fmt.Sprintf("deletion of %T", obj), func() bool {
			return apierrors.IsNotFound(s.Get(s.Context(), s.key(i), obj))
		})
	}
}

func (s *harness) eventually(description string, condition func() bool) {
	s.Helper()
	for start := time.Now(); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > waitTimeout {
			s.Fatalf("waited %s for %s", waitTimeout, description)
		}
	}
}

// verifyChildren checks the children of every application.
func (s *harness) verifyChildren() {
	s.Helper()
	for i := range apps {
		var d appsv1.Deployment
		s.must(s.Get(s.Context(), s.key(i), &d))
		container := d.Spec.Template.Spec.Containers[0]
		if *d.Spec.Replicas != 0 || container.Image != "shop/web:1" || container.Ports[0].ContainerPort != 8080 {
			s.Errorf("Deployment %s has the wrong spec: %v", d.Name, d.Spec)
		}
		var service corev1.Service
		s.must(s.Get(s.Context(), s.key(i), &service))
		if p := service.Spec.Ports[0]; p.Port != 80 || p.TargetPort.IntValue() != 8080 {
			s.Errorf("Service %s has the wrong spec: %v", service.Name, service.Spec)
		}
		app := &unstructured.Unstructured{}
		app.SetGroupVersionKind(s.contender.Kind)
		s.must(s.Get(s.Context(), s.key(i), app))
		for _, child := range []client.Object{&d, &service} {
			if child.GetLabels()[appsapi.DefaultKeys.OwnerUID] != string(app.GetUID()) {
				s.Errorf("%T %s has the wrong labels: %v", child, child.GetName(), child.GetLabels())
			}
		}
	}
}
