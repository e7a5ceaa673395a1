package install

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// cluster is a control plane with a configured kubectl.
type cluster struct {
	*WithT
	t          *testing.T
	plane      *controlplane.Plane
	kubeconfig string
}

func newCluster(t *testing.T) *cluster {
	plane := testutil.ControlPlane(t, controlplane.Options{Audit: true})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(plane.Config), file); err != nil {
		t.Fatal(err)
	}
	return &cluster{WithT: NewWithT(t), t: t, plane: plane, kubeconfig: file}
}

// kubectl runs kubectl, which must succeed, and returns its output.
func (c *cluster) kubectl(input []byte, args ...string) string {
	c.t.Helper()
	out, err := c.tryKubectl(input, args...)
	c.Expect(err).NotTo(HaveOccurred(), "kubectl %s\n%s", strings.Join(args, " "), out)
	return out
}

// tryKubectl runs kubectl and returns its output and error.
func (c *cluster) tryKubectl(input []byte, args ...string) (string, error) {
	c.t.Helper()
	assets, err := controlplane.Assets()
	c.Expect(err).NotTo(HaveOccurred())
	cmd := exec.Command(filepath.Join(assets, "kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.kubeconfig)
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

var pdbConfigured = regexp.MustCompile(`poddisruptionbudget\.policy/\S+ configured`)

// TestClientAndServerSideApply installs with client-side and server-side `kubectl apply`, and with one after the
// other.
func TestClientAndServerSideApply(t *testing.T) {
	c := newCluster(t)
	manifests := render(t, "cluster-wide")
	client, server := []string{"apply", "-f", "-"}, []string{"apply", "--server-side", "-f", "-"}
	apply := func(args []string) string {
		t.Helper()
		out := c.kubectl(manifests, args...)
		c.Expect(out).NotTo(ContainSubstring("Warning"))
		c.kubectl(nil, "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
		return out
	}
	c.Expect(apply(client)).To(ContainSubstring("customresourcedefinition.apiextensions.k8s.io/appstacks.apps.holdfast.dev created"))
	// kubectl reports every PodDisruptionBudget as configured, even without a change.
	again := pdbConfigured.ReplaceAllString(apply(client), "")
	c.Expect(again).NotTo(MatchRegexp("created|configured"), "a second apply must not change anything")
	apply(server)
	c.kubectl(manifests, "delete", "-f", "-", "--ignore-not-found", "--timeout=60s")
	c.Expect(apply(server)).To(ContainSubstring("customresourcedefinition.apiextensions.k8s.io/appstacks.apps.holdfast.dev serverside-applied"))
}

const stackManifest = `
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {token: x}
---
apiVersion: apps.holdfast.dev/v1alpha1
kind: AppStack
metadata: {name: shop}
spec:
  components:
  - name: web
    service:
      image: example.com/web:1
      ports: [{port: 80}]
      env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: web, key: token}}}]
`

// TestNamespacedOverlayGrantsEnough runs an operator with the permissions of the overlay. They must be sufficient, and
// the operator must reconcile only its namespaces.
func TestNamespacedOverlayGrantsEnough(t *testing.T) {
	c := newCluster(t)
	manifests := render(t, "namespaced")
	for _, ns := range []string{"team-a", "team-b"} {
		c.kubectl(nil, "create", "namespace", ns)
	}
	c.kubectl(manifests, "apply", "-f", "-")
	c.Expect(string(manifests)).To(ContainSubstring("- --namespaces=team-a\n"))
	operator.Start(t, c.plane, operator.Options{Args: []string{"--namespaces=team-a"}, LeaderElection: true})

	for _, ns := range []string{"team-b", "team-a"} {
		c.kubectl([]byte(stackManifest), "apply", "-n", ns, "-f", "-")
	}
	children := func(ns string) string {
		return c.kubectl(nil, "-n", ns, "get", "deployments,services,controllerrevisions", "-l", "app.kubernetes.io/managed-by=holdfast", "-o", "name")
	}
	c.Eventually(func() []string { return strings.Fields(children("team-a")) }, "20s").Should(HaveLen(3))
	c.Eventually(func() string {
		return c.kubectl(nil, "-n", "team-a", "get", "events.events.k8s.io", "-o", "jsonpath={.items[*].reason}")
	}, "20s").Should(ContainSubstring("ComponentCreated"))
	c.Expect(children("team-b")).To(BeEmpty(), "the operator must not reconcile other namespaces")
	// The command of docs/user/install.md.
	c.kubectl(nil, "delete", "holdfast", "--all", "--all-namespaces", "--timeout=20s")
	c.Expect(c.kubectl(nil, "get", "holdfast", "--all-namespaces", "-o", "name")).To(BeEmpty())

	log, err := audit.Open(c.plane.AuditLog())
	c.Expect(err).NotTo(HaveOccurred())
	requests, err := log.Since(t.Context(), c.plane.Config, 0)
	c.Expect(err).NotTo(HaveOccurred())
	requests = requests.By(operator.User)
	c.Expect(requests).NotTo(BeEmpty())
	forbidden := requests.Where(func(e *audit.Event) bool { return e.ResponseStatus.Code == http.StatusForbidden })
	c.Expect(forbidden).To(BeEmpty(), "the operator lacks permissions:\n%s", forbidden.Count())
}
