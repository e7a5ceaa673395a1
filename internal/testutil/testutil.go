// Package testutil provides a real control plane that stops with the test, and a namespace per test. Sub-packages watch
// and simulate the cluster.
//
// Safety rule: everything stops with the test that requested it.
package testutil

import (
	"net"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// ControlPlane starts a control plane that is stopped when the test ends. With -short the test is skipped: it needs
// binaries that a fresh checkout does not have.
func ControlPlane(t testing.TB, o controlplane.Options) *controlplane.Plane {
	t.Helper()
	SkipIfShort(t)
	plane, err := controlplane.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("start control plane: %v", err)
	}
	t.Cleanup(func() {
		if plane.KeepDir = t.Failed(); plane.KeepDir {
			t.Logf("logs of the control plane are kept in %s/log", plane.Dir)
		}
		if err := plane.Stop(); err != nil {
			t.Errorf("stop control plane: %v", err)
		}
	})
	return plane
}

// FreeAddress returns a loopback address with a port that no process uses now.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// SkipIfShort skips a test that needs an API server if -short is set.
func SkipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
}

// SharedControlPlane returns an API server, without a controller-manager, that tests of other packages use at the same
// time. `make test-api` starts it; a test that runs alone gets its own. A test can create objects in its own namespaces
// and install CRDs. It must not stop the API server or delete CRDs.
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

// Namespace creates a namespace for this test and returns its name, which starts with the name of the test. It is not
// deleted, so that a failed test can be inspected.
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

// maxPrefix leaves room for the five characters that the API server appends, and for names like "name.namespace.svc"
// within 63 characters.
const maxPrefix = 40

// namespacePrefix converts the name of a test to the start of a DNS label.
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
