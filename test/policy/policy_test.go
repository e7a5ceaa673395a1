// Package policy_test asks a real API server, with everything installed that we ship, whom the
// admission policies refuse: users who declare what they may not create, and everybody who
// deletes data without having said so.
//
// Safety rule: who passes is worked out from the rights of the user and from a list of what
// the spec makes, both written down here, never from the policy.
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
	// shopNamespace is where everything is tried, elsewhere a namespace with which it has nothing to do.
	shopNamespace, otherNamespace = "shop", "elsewhere"

	rightsPolicy, dataPolicy = "holdfast-requester-rights", "holdfast-keep-data"

	// waitTimeout bounds what the control plane does by itself: a policy is active within seconds, a
	// namespace is gone within ten.
	waitTimeout = "30s"
)

// world is a cluster with everything installed, and its users.
type world struct {
	*WithT
	t     *testing.T
	plane *controlplane.Plane
	admin client.Client
}

// forSubtest is the same world for a part of the test.
func (w *world) forSubtest(t *testing.T) *world {
	return &world{WithT: NewWithT(t), t: t, plane: w.plane, admin: w.admin}
}

// TestAdmissionPolicies plays everything on one control plane.
func TestAdmissionPolicies(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a namespace takes its data along", testNamespaceDeletion}, // the longest, mostly waiting
		{"rights", testRequesterRights},
		{"however it is written", testWriteVerbs},
		{"what is no spec passes", testMetadataOnly},
		{"as many accounts as can be asked for", testManyAccounts},
		{"data is kept", testKeepData},
		{"all at once", testDeleteCollection},
		{"what is no data goes", testNonData},
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
	// The controller-manager checks the types of a policy when that is new, and learns of new
	// kinds every 30 s, or when it starts.
	w.Expect(plane.ControllerManager.Stop(10 * time.Second)).To(Succeed())
	w.Expect(plane.ControllerManager.Start()).To(Succeed())

	for _, ns := range []string{shopNamespace, otherNamespace} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	w.install(root)
	for _, u := range users() {
		w.grant(u)
	}
	w.waitForRights()
	w.waitForPolicies()
	return w
}

// install applies what `make dist` renders; the kinds are there already.
func (w *world) install(root string) {
	w.t.Helper()
	cmd := exec.Command("hack/tool.sh", "kustomize", "build", "config/overlays/cluster-wide")
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

// waitForPolicies returns when both policies refuse what they are there for.
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
}

// clientFor is the access of a user.
func (w *world) clientFor(user string) client.Client {
	w.t.Helper()
	cfg := rest.CopyConfig(w.plane.Config)
	cfg.QPS = -1
	cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	c, err := client.New(cfg, client.Options{Scheme: clientgoscheme.Scheme, Mapper: w.admin.RESTMapper()})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}

// create makes an object as the administrator.
func (w *world) create(obj client.Object) {
	w.t.Helper()
	w.Expect(w.admin.Create(w.t.Context(), obj)).To(Succeed(), "create %T %s", obj, obj.GetName())
}

// parseObject reads a manifest.
func parseObject(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &obj.Object); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	return obj
}

// applicationInShop reads the manifest of an application and gives it a name.
func applicationInShop(t *testing.T, manifest, name string) *unstructured.Unstructured {
	t.Helper()
	obj := parseObject(t, manifest)
	obj.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	obj.SetNamespace(shopNamespace)
	obj.SetName(name)
	return obj
}

// mergePatch is a merge patch that sets one field.
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

// errorText is what an error says, or nothing.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sortedKeys are the keys of a table, so that every run reads the same.
func sortedKeys[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }
