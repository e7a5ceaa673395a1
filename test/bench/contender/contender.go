// Package contender starts the programs of test/bench/peers and defines what a driver needs to know of each: its kind of
// application and when it is ready. The programs are separate modules, so they run as separate processes, each with its
// own user.
//
// Safety rule: all contenders have the same permissions, those of cluster-admin through RBAC. None is in a group that
// bypasses API priority and fairness.
package contender

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

const readyTimeout = time.Minute

// Contender is a program that creates a Deployment and a Service for each application.
type Contender struct {
	Name string
	// Kind is the kind of its applications.
	Kind schema.GroupVersionKind

	module     string // directory below peers
	pkg        string // package to build
	args       func(workers int, health string) []string
	usesReadyz bool                                          // ready when its health endpoint is ok; otherwise it prints a line
	install    func(t testing.TB, plane *controlplane.Plane) // before the start
	afterStart func(t testing.TB, plane *controlplane.Plane) // after the start
	spec       func(image string, replicas int64) (spec any) // of an application with one port
}

var appService = schema.GroupVersionKind{Group: "apps.holdfast.dev", Version: "v1alpha1", Kind: "AppService"}

func newPeer(name string) Contender {
	return Contender{
		Name: name, Kind: appService, module: ".", pkg: "./" + name,
		args:    func(workers int, _ string) []string { return []string{fmt.Sprintf("--workers=%d", workers)} },
		install: installCRDs,
		spec: func(image string, replicas int64) any {
			port := map[string]any{"name": "http", "port": int64(80), "targetPort": int64(8080)}
			return map[string]any{"image": image, "replicas": replicas, "ports": []any{port}}
		},
	}
}

// All returns all contenders.
func All() []Contender {
	return []Contender{
		newPeer("sample"), newPeer("kubebuilder"), newPeer("fluxssa"),
		kro("kro-stock", stockFlags), kro("kro-tuned", tunedFlags), kro("kro-events", eventDrivenFlags),
	}
}

// ByName returns the contender with this name.
func ByName(name string) (Contender, error) {
	var known []string
	for _, c := range All() {
		if c.Name == name {
			return c, nil
		}
		known = append(known, c.Name)
	}
	return Contender{}, fmt.Errorf("unknown contender %q, want one of %s", name, strings.Join(known, ", "))
}

// User returns the user name of the contender.
func (c *Contender) User() string { return "bench:" + c.Name }

// App returns an application with one port, 80 to container port 8080.
func (c *Contender) App(namespace, name, image string, replicas int64) *unstructured.Unstructured {
	app := &unstructured.Unstructured{Object: map[string]any{"spec": c.spec(image, replicas)}}
	app.SetGroupVersionKind(c.Kind)
	app.SetNamespace(namespace)
	app.SetName(name)
	return app
}

// Ready reports whether the current state of an application is ready.
func (c *Contender) Ready(app *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(app.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, ok := entry.(map[string]any)
		if !ok || condition["type"] != "Ready" || condition["status"] != "True" {
			continue
		}
		observed, ok := condition["observedGeneration"].(int64)
		return !ok || observed >= app.GetGeneration()
	}
	return false
}

// Build builds the program in the bin directory of the repository and returns its path.
func (c *Contender) Build(t testing.TB) string {
	t.Helper()
	root := repoRoot(t)
	path := filepath.Join(root, "bin", "peers", strings.TrimPrefix(strings.ReplaceAll(c.pkg, "/", "-"), ".-"))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-o", path, c.pkg)
	cmd.Dir = filepath.Join(root, peersDir, c.module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s in %s: %v\n%s", c.pkg, cmd.Dir, err, out)
	}
	return path
}

// Start builds and starts the contender on a new control plane, and returns when it is ready. It stops with the test.
func (c *Contender) Start(t testing.TB, plane *controlplane.Plane, workers int) *controlplane.Process {
	t.Helper()
	path, dir := c.Build(t), t.TempDir()
	c.install(t, plane)
	c.grantClusterAdmin(t, plane)
	cfg, err := plane.ConfigFor(c.User())
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(cfg), kubeconfig); err != nil {
		t.Fatal(err)
	}
	health := testutil.FreeAddress(t)
	p := &controlplane.Process{
		Name: c.Name, Path: path, Log: filepath.Join(dir, c.Name+".log"),
		Args: append([]string{"--kubeconfig=" + kubeconfig}, c.args(workers, health)...),
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndLog(t, p) })
	c.waitReady(t, p, health)
	if c.afterStart != nil {
		c.afterStart(t, plane)
	}
	return p
}

func (c *Contender) waitReady(t testing.TB, p *controlplane.Process, health string) {
	t.Helper()
	deadline := time.After(readyTimeout)
	for !c.isReady(p, health) {
		select {
		case <-p.Exited():
			t.Fatal(p.Failure())
		case <-deadline:
			t.Fatalf("%s is not ready after %s, see %s", c.Name, readyTimeout, p.Log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (c *Contender) isReady(p *controlplane.Process, health string) bool {
	if !c.usesReadyz {
		log, err := os.ReadFile(p.Log)
		return err == nil && (bytes.HasPrefix(log, []byte("ready\n")) || bytes.Contains(log, []byte("\nready\n")))
	}
	response, err := http.Get("http://" + health + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func stopAndLog(t testing.TB, p *controlplane.Process) {
	if err := p.Stop(10 * time.Second); err != nil {
		t.Errorf("stop %s: %v", p.Name, err)
	}
	if log, err := os.ReadFile(p.Log); err == nil && t.Failed() {
		lines := bytes.Split(log, []byte("\n"))
		t.Logf("end of the log of %s:\n%s", p.Name, bytes.Join(lines[max(0, len(lines)-40):], []byte("\n")))
	}
}

// grantClusterAdmin grants the contender the permissions of its default installation: all.
func (c *Contender) grantClusterAdmin(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	client, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bench-" + c.Name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: c.User()}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func installCRDs(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	if _, err := plane.InstallCRDs(filepath.Join(repoRoot(t), "config", "crd")); err != nil {
		t.Fatalf("install CRDs: %v", err)
	}
}

var peersDir = filepath.Join("test", "bench", "peers")

// repoRoot returns the root of the repository, starting from the directory of the test, because tests of two modules use
// it.
func repoRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, peersDir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal(errors.New("the test does not run in the repository"))
		}
		dir = filepath.Dir(dir)
	}
}
