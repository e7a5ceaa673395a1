// Package gitops checks that requests of the kubectl plugin survive delivery tools: a tool that applies the unchanged
// manifest again must not restart pods, and must not silently revert a request.
package gitops

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// program is the path of the program in apply, which `make gitops` builds: its dependencies take minutes to build.
var program = flag.String("apply", "", "path of the program test/gitops/apply; without it only kubectl is tested")

var shared = &harness.Shared{Behavior: harness.BehaviorByTag(behaviors), Operator: operator.Options{NoRace: true}}

var behaviors = map[string]podsim.Behavior{"done": podsim.Succeeded()}

func TestMain(m *testing.M) { harness.Main(m, shared) }

// tools are the tested tools with their commands. MANIFEST stands for the path of the manifest.
var tools = []struct {
	name    string
	library bool
	args    []string
}{
	{"kubectl apply", false, []string{"apply", "-f", "MANIFEST"}},
	{"kubectl apply --server-side", false, []string{"apply", "--server-side", "-f", "MANIFEST"}},
	{"kubectl apply --server-side --force-conflicts", false, []string{"apply", "--server-side", "--force-conflicts", "-f", "MANIFEST"}},
	{"Flux", true, []string{"-tool=flux", "-f=MANIFEST"}},
	{"Argo CD", true, []string{"-tool=argocd", "-f=MANIFEST"}},
	{"Argo CD, server-side", true, []string{"-tool=argocd-server-side", "-f=MANIFEST"}},
}

// manifest is one application of each kind. Component fixed sets its replicas, all others omit them.
const manifest = `
apiVersion: apps.holdfast.dev/v1alpha1
kind: AppStack
metadata: {name: shop, namespace: NAMESPACE}
spec:
  components:
  - {name: migrate, job: {image: "shop/migrate:done"}}
  - {name: db, database: {version: "11.8", storage: {size: 1Gi}}}
  - {name: web, bindings: [{component: db}], service: {image: "shop/web:1", ports: [{port: 80}]}}
  - {name: fixed, service: {image: "shop/fixed:1", replicas: 2}}
---
apiVersion: apps.holdfast.dev/v1alpha1
kind: AppService
metadata: {name: hello, namespace: NAMESPACE}
spec: {image: "shop/hello:1"}
---
apiVersion: apps.holdfast.dev/v1alpha1
kind: CloudManager
metadata: {name: cm, namespace: NAMESPACE}
spec:
  db: {statefulSet: {image: "mariadb:11.8", storage: {size: 1Gi}}}
  identity: {deployment: {image: "shop/identity:1", ports: [{port: 80}]}}
  front: {deployment: {image: "shop/front:1"}}
`

// world is a namespace with the applications of the manifest.
type world struct {
	*harness.World
	manifest, kubeconfig string
	shop                 *appsapi.AppStack
	hello                *appsapi.AppService
	cm                   *appsapi.CloudManager
	// apply applies the manifest and returns the output of the tool.
	apply func() (string, error)
}

func newWorld(t *testing.T, library bool, args []string) *world {
	t.Helper()
	w := &world{World: shared.NewWorld(t), kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), manifest: filepath.Join(t.TempDir(), "manifest.yaml")}
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(w.Plane.Config), w.kubeconfig)).To(Succeed())
	w.Expect(os.WriteFile(w.manifest, []byte(strings.ReplaceAll(manifest, "NAMESPACE", w.NS)), 0o600)).To(Succeed())
	w.shop, w.hello, w.cm = &appsapi.AppStack{}, &appsapi.AppService{}, &appsapi.CloudManager{}
	w.shop.Name, w.hello.Name, w.cm.Name = "shop", "hello", "cm"
	w.shop.Namespace, w.hello.Namespace, w.cm.Namespace = w.NS, w.NS, w.NS
	assets, err := controlplane.Assets()
	w.Expect(err).NotTo(HaveOccurred())
	w.apply = func() (string, error) {
		command := filepath.Join(assets, "kubectl")
		if library {
			command = *program
		}
		all := []string{"--kubeconfig=" + w.kubeconfig}
		for _, arg := range args {
			all = append(all, strings.ReplaceAll(arg, "MANIFEST", w.manifest))
		}
		out, err := exec.CommandContext(w.Context(), command, all...).CombinedOutput()
		return string(out), err
	}
	return w
}

// mustApply applies the manifest. Argo CD must report that it is in sync.
func (w *world) mustApply() {
	w.Helper()
	out, err := w.apply()
	w.Expect(err).NotTo(HaveOccurred(), out)
	w.Expect(out).NotTo(ContainSubstring("OutOfSync"))
}

// plugin runs the plugin and returns its output.
func (w *world) plugin(args ...string) string {
	w.Helper()
	var out bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS}, args...))
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	w.Expect(cmd.ExecuteContext(w.Context())).To(Succeed(), "kubectl holdfast %v\n%s", args, &out)
	return out.String()
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(w.shop)
	w.WaitReady(w.hello)
	w.WaitReady(w.cm)
}
