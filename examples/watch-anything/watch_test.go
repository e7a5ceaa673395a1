package main

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/client/clientset/versioned"
	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/faults/proxy"
)

const appServices = "appservices.v1alpha1.apps.holdfast.dev"

func TestWatchAnything(t *testing.T) {
	plane := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	if _, err := plane.InstallCRDs("../../config/crd"); err != nil {
		t.Fatal(err)
	}
	t.Run("start, stop and query", func(t *testing.T) { t.Parallel(); testStartStopAndQuery(t, plane) })
	t.Run("forbidden", func(t *testing.T) { t.Parallel(); testForbidden(t, plane) })
	t.Run("unreachable server", func(t *testing.T) { t.Parallel(); testUnreachableServer(t, plane) })
}

// program is a run of the example.
type program struct {
	*testing.T
	*WithT
	ns   string
	kube kubernetes.Interface
	in   io.Writer
	out  *gbytes.Buffer
	stop func()
}

func startProgram(t *testing.T, plane *controlplane.Plane, cfg *rest.Config, ns string) *program {
	t.Helper()
	p := &program{T: t, WithT: NewWithT(t), ns: ns, kube: kubernetes.NewForConfigOrDie(plane.Config), out: gbytes.NewBuffer()}
	p.SetDefaultEventuallyTimeout(20 * time.Second)
	in, commands := io.Pipe()
	p.in = commands
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, cfg, in, p.out, ns) }()
	p.stop = func() {
		t.Helper()
		cancel()
		p.Eventually(done).Should(Receive(Not(HaveOccurred())))
		_ = in.Close()
	}
	return p
}

func (p *program) command(format string, args ...any) { fmt.Fprintf(p.in, format+"\n", args...) }

// expectLine waits for a line after the previously expected ones.
func (p *program) expectLine(format string, args ...any) {
	p.Helper()
	p.Eventually(p.out).Should(gbytes.Say("%s\n", fmt.Sprintf(format, args...)))
}

func (p *program) createConfigMap(name string, owner *metav1.OwnerReference) {
	p.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "blue"}}}
	if owner != nil {
		m.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	_, err := p.kube.CoreV1().ConfigMaps(p.ns).Create(p.Context(), m, metav1.CreateOptions{})
	p.Expect(err).NotTo(HaveOccurred())
}

func testStartStopAndQuery(t *testing.T, plane *controlplane.Plane) {
	faultProxy, err := proxy.Start(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = faultProxy.Stop() })
	p := startProgram(t, plane, faultProxy.Config, testutil.Namespace(t, plane.Config))
	apps := versioned.NewForConfigOrDie(plane.Config).AppsV1alpha1().AppServices(p.ns)
	web := &appsapi.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "blue"}}}
	web.Spec.Image = "nginx:1.27"
	web, err = apps.Create(t.Context(), web, metav1.CreateOptions{})
	p.Expect(err).NotTo(HaveOccurred())

	p.command("+" + appServices)
	p.expectLine("%s: watching, objects: 1", appServices)
	p.command("+configmaps.v1")
	p.expectLine("configmaps.v1: watching, objects: 0")
	p.command("+configmaps.v1")
	p.expectLine(`\+configmaps.v1: already watched`)
	p.createConfigMap("free", nil)
	p.expectLine("configmaps.v1: added %s/free", p.ns)
	p.createConfigMap("owned", &metav1.OwnerReference{APIVersion: "apps.holdfast.dev/v1alpha1", Kind: "AppService", Name: "web", UID: web.UID})
	p.expectLine("configmaps.v1: added %s/owned", p.ns)

	p.command("?team=blue")
	p.expectLine(`\?team=blue: 3 found\n  %s %s/web\n  configmaps.v1 %s/free\n  configmaps.v1 %s/owned`, appServices, p.ns, p.ns, p.ns)
	p.command("@%s %s/web", appServices, p.ns)
	p.expectLine(`@%s %s/web: 1 found\n  configmaps.v1 %s/owned`, appServices, p.ns, p.ns)
	p.command("@%s %s/nobody", appServices, p.ns)
	p.expectLine(`object not found`)

	// Deleted while no watch is open: only a new list shows it.
	faultProxy.HoldEvents(nil)
	p.Expect(p.kube.CoreV1().ConfigMaps(p.ns).Delete(t.Context(), "free", metav1.DeleteOptions{})).To(Succeed())
	p.Expect(faultProxy.ExpireWatches(proxy.Only("configmaps"))).To(Equal(1))
	faultProxy.ReleaseEvents()
	p.expectLine("configmaps.v1: deleted %s/free", p.ns)

	p.command("+unicorns.v1.example.com")
	p.expectLine("unicorns.v1.example.com: resource not found")
	p.command("-unicorns.v1.example.com")
	p.expectLine("unicorns.v1.example.com: stopped")
	p.command("-configmaps.v1")
	p.expectLine("configmaps.v1: stopped")
	p.Eventually(func() int { return faultProxy.OpenWatches(proxy.Only("configmaps")) }).Should(BeZero(), "watches that are still open")
	p.createConfigMap("unseen", nil)
	p.command("?team=blue")
	p.expectLine(`\?team=blue: 1 found\n  %s %s/web`, appServices, p.ns)
	for command, answer := range map[string]string{
		"-configmaps.v1": "-configmaps.v1: not watched", "+pods": `\+pods: want resource.version.group`, "pods": `pods: a command starts with`,
	} {
		p.command("%s", command)
		p.Eventually(p.out.Contents).Should(MatchRegexp(answer))
	}
	p.stop()
	p.Expect(string(p.out.Contents())).NotTo(ContainSubstring("unseen"))
}

// testForbidden checks that a missing permission is reported, does not affect other watches, and
// that granting it takes effect.
func testForbidden(t *testing.T, plane *controlplane.Plane) {
	cfg, err := plane.ConfigFor("reader")
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, plane, cfg, testutil.Namespace(t, plane.Config))
	allow := func(resource string) {
		t.Helper()
		_, err := p.kube.RbacV1().Roles(p.ns).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: resource},
			Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"list", "watch"}}}}, metav1.CreateOptions{})
		p.Expect(err).NotTo(HaveOccurred())
		_, err = p.kube.RbacV1().RoleBindings(p.ns).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: resource},
			RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: resource},
			Subjects: []rbacv1.Subject{{Kind: "User", Name: "reader"}}}, metav1.CreateOptions{})
		p.Expect(err).NotTo(HaveOccurred())
	}
	p.command("+secrets.v1")
	p.expectLine(`secrets.v1: forbidden: .*User "reader" cannot (list|watch) resource "secrets".*`)
	allow("configmaps")
	p.command("+configmaps.v1")
	p.expectLine("configmaps.v1: watching, objects: 0")
	allow("secrets")
	p.expectLine("secrets.v1: watching, objects: 0")
	p.stop()
}

// testUnreachableServer uses an address without a server.
func testUnreachableServer(t *testing.T, plane *controlplane.Plane) {
	p := startProgram(t, plane, &rest.Config{Host: "http://127.0.0.1:1"}, "default")
	p.command("+pods.v1")
	p.expectLine("pods.v1: no response yet, retrying")
	p.stop()
}
