// Package policy_test tests the admission policies with a complete installation on a real API server. They must
// reject users who declare objects that they are not allowed to create, and unconfirmed deletions of data.
//
// Safety rule: the expected decisions are computed from the permissions of the users and a list of the children of
// each spec, both defined here, never from the policies.
package policy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

const (
	// shopNamespace is the namespace under test, otherNamespace an unrelated one.
	shopNamespace, otherNamespace = "shop", "elsewhere"

	rightsPolicy, dataPolicy, passwordPolicy = "holdfast-requester-rights", "holdfast-keep-data", "holdfast-plain-passwords"

	// waitTimeout limits the waits for the control plane: a policy is active within seconds, and a namespace is
	// deleted within ten seconds.
	waitTimeout = "30s"
)

// world is a cluster with a complete installation and its users.
type world struct {
	*WithT
	t     *testing.T
	plane *controlplane.Plane
	admin client.Client
}

// forSubtest returns the same world for a subtest.
func (w *world) forSubtest(t *testing.T) *world {
	return &world{WithT: NewWithT(t), t: t, plane: w.plane, admin: w.admin}
}

// TestAdmissionPolicies runs all subtests on one control plane.
func TestAdmissionPolicies(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"namespace deletion deletes its data", testNamespaceDeletion}, // first, because it takes longest
		{"rights", testRequesterRights},
		{"all write verbs are checked", testWriteVerbs},
		{"writes outside the spec are allowed", testMetadataOnly},
		{"limit of ServiceAccounts", testManyAccounts},
		{"deleting data requires confirmation", testKeepData},
		{"deletecollection keeps data", testDeleteCollection},
		{"other objects can be deleted", testNonData},
		{"passwords in specs are rejected", testPlainPasswords},
		{"types", testTypeChecking},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(w.forSubtest(t))
		})
	}
}

func newWorld(t *testing.T) *world {
	plane := testutil.ControlPlane(t, controlplane.Options{})
	admin, err := client.New(plane.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{WithT: NewWithT(t), t: t, plane: plane, admin: admin}
	root, err := operator.RepoRoot()
	w.Expect(err).NotTo(HaveOccurred())
	_, err = plane.InstallCRDs(filepath.Join(root, "config", "crd"))
	w.Expect(err).NotTo(HaveOccurred())
	// The controller-manager type-checks a policy only when it is created, and discovers new kinds every 30 s or
	// when it starts.
	w.Expect(plane.ControllerManager.Stop(10 * time.Second)).To(Succeed())
	w.Expect(plane.ControllerManager.Start()).To(Succeed())

	for _, ns := range []string{shopNamespace, otherNamespace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	w.install(root, "cluster-wide")
	for _, u := range users() {
		w.grant(u)
	}
	w.waitForRights()
	w.waitForPolicies()
	return w
}

// install applies the manifests of an overlay. The CRDs are installed already.
func (w *world) install(root, overlay string) {
	w.t.Helper()
	cmd := exec.Command("hack/tool.sh", "kustomize", "build", "config/overlays/"+overlay)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	w.Expect(err).NotTo(HaveOccurred(), "%s", &stderr)
	for doc := range strings.SplitSeq(string(out), "\n---\n") {
		obj := parseObject(w.t, doc)
		if obj.GetKind() != "CustomResourceDefinition" {
			w.create(obj)
		}
	}
}

// waitForPolicies waits until all policies are active.
func (w *world) waitForPolicies() {
	w.t.Helper()
	writer := w.clientFor("writer")
	w.Eventually(func() string {
		return errorText(writer.Create(w.t.Context(), applicationInShop(w.t, specs["AppService, bare"].object, "probe"), client.DryRunAll))
	}, waitTimeout, "100ms").Should(ContainSubstring(rightsPolicy))
	probe := newSecret("probe", holdfastLabels("workload"))
	w.create(probe)
	w.Eventually(func() string {
		return errorText(w.admin.Delete(w.t.Context(), probe, client.DryRunAll))
	}, waitTimeout, "100ms").Should(ContainSubstring(dataPolicy))
	w.Eventually(func() string {
		return errorText(w.admin.Create(w.t.Context(), newCloudManager(w.t, "probe", "secret", ""), client.DryRunAll))
	}, waitTimeout, "100ms").Should(ContainSubstring(passwordPolicy))
}

// clientFor returns a client that impersonates a user.
func (w *world) clientFor(user string) client.Client {
	w.t.Helper()
	cfg := rest.CopyConfig(w.plane.Config)
	cfg.QPS = -1
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme, Mapper: w.admin.RESTMapper()})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// create creates an object as the administrator.
func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(w.admin.Create(w.t.Context(), obj)).To(Succeed(), "create %T %s", obj, obj.GetName())
}

// parseObject parses a manifest.
func parseObject(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &obj.Object); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	return obj
}

// applicationInShop parses the manifest of an application and sets its name.
func applicationInShop(t *testing.T, manifest, name string) *unstructured.Unstructured {
	t.Helper()
	obj := parseObject(t, manifest)
	obj.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	obj.SetNamespace(shopNamespace)
	obj.SetName(name)
	return obj
}

// mergePatch returns a merge patch that sets one field.
func mergePatch(t *testing.T, value any, path ...string) client.Patch {
	t.Helper()
	for _, field := range slices.Backward(path) {
		value = map[string]any{field: value}
	}
	body, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch("application/merge-patch+json", body)
}

// errorText returns the message of an error, or "".
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sortedKeys returns the keys of a table in a fixed order.
func sortedKeys[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }
