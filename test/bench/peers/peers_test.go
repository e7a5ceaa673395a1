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
	// settleTime is how long a peer says nothing more when it has come to rest.
	settleTime = 5 * time.Second
)

// TestPeers lets every peer do what the driver will ask of it, and prints what it took.
func TestPeers(t *testing.T) {
	for _, c := range contender.All() {
		t.Run(c.Name, func(t *testing.T) { runPeer(t, &c) })
	}
}

func runPeer(t *testing.T, c *contender.Contender) {
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	ctrl.SetLogger(logr.Discard()) // else it complains about not having one
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
	// A refresh of a lease or of a cache is not about an application.
	requests := all.By(c.User()).In(s.namespace)
	if len(requests.Writes()) < 3*apps {
		t.Errorf("%d writes for %d applications of two children and a status each: the log misses some", len(requests.Writes()), apps)
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

// waitReady returns how long it took until all were.
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
			s.Fatalf("%d of %d are ready after %s; the first is %v", ready, apps, waitTimeout, list.Items[0].Object)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// changeImage gives one application another image, which its Deployment must get.
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

// deleteApp deletes one application, which its children must follow.
func (s *harness) deleteApp(i int) {
	s.Helper()
	app := s.contender.App(s.namespace, appName(i), "", 0)
	s.must(s.Delete(s.Context(), app))
	for _, obj := range []client.Object{app, &appsv1.Deployment{}, &corev1.Service{}} {
		s.eventually(fmt.Sprintf("%T to be gone", obj), func() bool {
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
			s.Errorf("Deployment %s is not what was asked for: %v", d.Name, d.Spec)
		}
		var service corev1.Service
		s.must(s.Get(s.Context(), s.key(i), &service))
		if p := service.Spec.Ports[0]; p.Port != 80 || p.TargetPort.IntValue() != 8080 {
			s.Errorf("Service %s is not what was asked for: %v", service.Name, service.Spec)
		}
		app := &unstructured.Unstructured{}
		app.SetGroupVersionKind(s.contender.Kind)
		s.must(s.Get(s.Context(), s.key(i), app))
		for _, child := range []client.Object{&d, &service} {
			if child.GetLabels()[appsapi.LabelOwnerUID] != string(app.GetUID()) {
				s.Errorf("%T %s cannot be counted: its labels are %v", child, child.GetName(), child.GetLabels())
			}
		}
	}
}
