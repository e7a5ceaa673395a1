// Package testutil gives a test the ground it stands on: a real control plane that
// ends with the test, and a namespace of its own. What a test watches and plays on
// it lives in the packages below.
//
// Safety rule: nothing here outlives the test that asked for it.
package testutil

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// ControlPlane starts a control plane that is stopped when the test ends. A short
// run skips the test: it needs binaries that a fresh checkout does not have.
func ControlPlane(t testing.TB, o controlplane.Options) *controlplane.Plane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	plane, err := controlplane.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start control plane: %v", err)
	}
	t.Cleanup(func() {
		if plane.KeepDir = t.Failed(); plane.KeepDir {
			t.Logf("the logs of the control plane stay in %s/log", plane.Dir)
		}
		if err := plane.Stop(); err != nil {
			t.Errorf("stop control plane: %v", err)
		}
	})
	return plane
}

// SharedControlPlane returns an API server that tests of other packages use at the same time,
// without a controller-manager: `make test-api` starts it, and a test that runs alone gets its
// own. A test may create what it likes in namespaces of its own, and install CRDs. It must not
// stop the API server or delete CRDs.
func SharedControlPlane(t testing.TB) *controlplane.Plane {
	t.Helper()
	dir := os.Getenv(controlplane.SharedEnv)
	if dir == "" || testing.Short() {
		return ControlPlane(t, controlplane.Options{NoControllerManager: true, Audit: true})
	}
	plane, err := controlplane.Attach(dir)
	if err != nil {
		t.Fatal(err)
	}
	return plane
}

// Namespace creates a namespace for this test alone and returns its name, which
// begins with the name of the test. It is left behind: the control plane goes as a
// whole, and a failed test can still be looked at.
func Namespace(t testing.TB, cfg *rest.Config) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namespacePrefix(t.Name())}}
	ns, err = client.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create namespace: %v", err)
	}
	return ns.Name
}

// maxPrefix leaves room for the five characters that the API server appends, and for
// object names of the usual kind "name.namespace.svc" within 63 characters.
const maxPrefix = 40

// namespacePrefix turns the name of a test into the beginning of a DNS label.
func namespacePrefix(test string) string {
	label := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, test)
	if len(label) > maxPrefix {
		label = label[:maxPrefix]
	}
	return strings.Trim(label, "-") + "-"
}
