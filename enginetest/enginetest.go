// Package enginetest runs the operator of your own kind in a test: on a real API server, with simulated
// pods and volumes, and with the permissions that you ship. A short run (go test -short) skips the test.
//
//	plane := enginetest.Start(t, enginetest.Options{CRDs: []string{"config/crd"}, Manifests: []string{"config/role.yaml"}})
//	go run(ctx, plane.ConfigFor(t, "system:serviceaccount:my-namespace:my-operator"))
//	app.Namespace = plane.Namespace(t)
//	enginetest.WaitReady(t, c, app)
//
// It needs the binaries of etcd, kube-apiserver and kube-controller-manager in the folder that
// KUBEBUILDER_ASSETS names; in a checkout of Holdfast, `make assets` fills it.
//
// Safety rule: everything that it starts ends with the test.
package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// Options of a control plane.
type Options struct {
	// CRDs are files and folders with CustomResourceDefinitions to install.
	CRDs []string
	// Manifests are files with further objects to create, such as roles. Their namespaces are created.
	Manifests []string
	// MissingImages are images that cannot be pulled: their pods do not start. All other pods
	// become ready.
	MissingImages []string
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	// Config has administrator access.
	Config *rest.Config
	plane  *controlplane.Plane
}

// Start starts a control plane that is stopped when the test ends.
func Start(t testing.TB, o Options) *ControlPlane {
	t.Helper()
	plane := testutil.ControlPlane(t, controlplane.Options{})
	if len(o.CRDs) > 0 {
		if _, err := plane.InstallCRDs(o.CRDs...); err != nil {
			t.Fatalf("install CustomResourceDefinitions: %v", err)
		}
	}
	behavior := podsim.WithBehavior(func(pod *corev1.Pod) podsim.Behavior {
		if slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(o.MissingImages, c.Image) }) {
			return podsim.ImageNotFound()
		}
		return podsim.Behavior{}
	})
	if _, err := podsim.Start(t.Context(), plane.Config, behavior); err != nil {
		t.Fatalf("simulate pods: %v", err)
	}
	if err := volsim.Start(t.Context(), plane.Config); err != nil {
		t.Fatalf("simulate volumes: %v", err)
	}
	p := &ControlPlane{Config: plane.Config, plane: plane}
	for _, file := range o.Manifests {
		if err := p.create(t.Context(), file); err != nil {
			t.Fatalf("create the objects of %s: %v", file, err)
		}
	}
	return p
}

// create creates the objects of a file, and their namespaces.
func (p *ControlPlane) create(ctx context.Context, path string) error {
	c, err := client.New(p.Config, client.Options{})
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for decoder := yaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(obj); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if ns := obj.GetNamespace(); ns != "" {
			err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
		}
		if err := c.Create(ctx, obj); err != nil {
			return err
		}
	}
}

// ConfigFor returns the access of a user, for example system:serviceaccount:NAMESPACE:NAME.
func (p *ControlPlane) ConfigFor(t testing.TB, user string) *rest.Config {
	t.Helper()
	config, err := p.plane.ConfigFor(user)
	if err != nil {
		t.Fatalf("issue a certificate for %s: %v", user, err)
	}
	return config
}

// Kubeconfig writes a kubeconfig file for another program, and returns its path.
func (p *ControlPlane) Kubeconfig(t testing.TB, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Namespace creates a namespace for this test and returns its name.
func (p *ControlPlane) Namespace(t testing.TB) string {
	t.Helper()
	return testutil.Namespace(t, p.Config)
}

// WaitReady reads an application until its operator reports the current generation as ready.
func WaitReady(t testing.TB, c client.Reader, app engine.Object) {
	t.Helper()
	WaitFor(t, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return err
		}
		status := app.ApplicationStatus()
		ready := meta.FindStatusCondition(status.Conditions, appsapi.ConditionReady)
		switch {
		case ready == nil || status.ObservedGeneration != app.GetGeneration():
			return fmt.Errorf("the operator has not reported generation %d of %s", app.GetGeneration(), app.GetName())
		case ready.Status != metav1.ConditionTrue:
			return errors.New(ready.Message)
		}
		return nil
	})
}

// Limits of WaitFor.
const (
	waitTimeout  = time.Minute
	waitInterval = 200 * time.Millisecond
)

// WaitFor repeats a check until it returns nil, and fails the test after a minute with its last error.
func WaitFor(t testing.TB, check func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("after %s: %v", waitTimeout, err)
		case <-time.After(waitInterval):
		}
	}
}
