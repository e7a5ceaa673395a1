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
	// shop is where everything is tried, elsewhere a namespace with which it has nothing to do.
	shop, elsewhere = "shop", "elsewhere"

	rightsPolicy, dataPolicy = "holdfast-requester-rights", "holdfast-keep-data"

	// soon bounds what the control plane does by itself: a policy is active within seconds, a
	// namespace is gone within ten.
	soon = "30s"
)

// world is a cluster with everything installed, and its users.
type world struct {
	*WithT
	t     *testing.T
	plane *controlplane.Plane
	admin client.Client
}

// with is the same world for a part of the test.
func (w *world) with(t *testing.T) *world {
	return &world{WithT: NewWithT(t), t: t, plane: w.plane, admin: w.admin}
}

// TestPolicies plays everything on one control plane.
func TestPolicies(t *testing.T) {
	w := newWorld(t)
	for _, part := range []struct {
		name string
		play func(*world)
	}{
		{"a namespace takes its data along", namespaceGoes}, // the longest, mostly waiting
		{"rights", rights},
		{"however it is written", verbs},
		{"what is no spec passes", metadata},
		{"as many accounts as can be asked for", manyAccounts},
		{"data is kept", keepData},
		{"all at once", collection},
		{"what is no data goes", noData},
		{"types", types},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.play(w.with(t))
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
	root, err := operator.Root()
	w.Expect(err).NotTo(HaveOccurred())
	_, err = plane.InstallCRDs(filepath.Join(root, "config", "crd"))
	w.Expect(err).NotTo(HaveOccurred())
	// The controller-manager checks the types of a policy when that is new, and learns of new
	// kinds every 30 s, or when it starts.
	w.Expect(plane.ControllerManager.Stop(10 * time.Second)).To(Succeed())
	w.Expect(plane.ControllerManager.Start()).To(Succeed())

	for _, ns := range []string{shop, elsewhere} {
		w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	}
	w.install(root)
	for _, u := range users() {
		w.grant(u)
	}
	w.awaitRights()
	w.awaitPolicies()
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
		obj := object(w.t, doc)
		if obj.GetKind() != "CustomResourceDefinition" {
			w.create(obj)
		}
	}
}

// awaitPolicies returns when both policies refuse what they are there for.
func (w *world) awaitPolicies() {
	w.t.Helper()
	writer := w.as("writer")
	w.Eventually(func() string {
		return refusal(writer.Create(w.t.Context(), inShop(w.t, specs["AppService, bare"].object, "probe"), client.DryRunAll))
	}, soon, "100ms").Should(ContainSubstring(rightsPolicy))
	probe := secret("probe", ours("workload"))
	w.create(probe)
	w.Eventually(func() string {
		return refusal(w.admin.Delete(w.t.Context(), probe, client.DryRunAll))
	}, soon, "100ms").Should(ContainSubstring(dataPolicy))
}

// as is the access of a user.
func (w *world) as(user string) client.Client {
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

// object reads a manifest.
func object(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &obj.Object); err != nil {
		t.Fatalf("%v in\n%s", err, manifest)
	}
	return obj
}

// inShop reads the manifest of an application and gives it a name.
func inShop(t *testing.T, manifest, name string) *unstructured.Unstructured {
	t.Helper()
	obj := object(t, manifest)
	obj.SetAPIVersion("apps.holdfast.dev/v1alpha1")
	obj.SetNamespace(shop)
	obj.SetName(name)
	return obj
}

// merge is a merge patch that sets one field.
func merge(t *testing.T, value any, path ...string) client.Patch {
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

// refusal is what an error says, or nothing.
func refusal(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// sorted are the keys of a table, so that every run reads the same.
func sorted[V any](table map[string]V) []string { return slices.Sorted(maps.Keys(table)) }
