package verbs_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// unzipReport returns the files of a report by name, without the folder.
func (w *world) unzipReport(content []byte) map[string]string {
	w.Helper()
	r, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	w.Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for _, f := range r.File {
		in, err := f.Open()
		w.Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(in)
		w.Expect(err).NotTo(HaveOccurred())
		_, name, _ := strings.Cut(f.Name, "/")
		files[name] = string(text)
	}
	return files
}

const crashingStack = `
components:
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: web, dependsOn: [db], service: {image: "shop/web:crash", env: [{name: MODE, value: secretmode}], config: {files: [{path: /etc/app/app.yaml, content: filecontent}]}}}
`

func TestReport(t *testing.T) {
	w := newStory(t)
	w.create(crashingStack)
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	w.createOperatorDeployment()
	dir := w.TempDir()
	file := filepath.Join(dir, "shop.zip")
	out := w.mustRun("report", "shop", "-o", file, "--operator-namespace", w.NS)
	w.Expect(out).To(HavePrefix(fmt.Sprintf("Wrote %s for AppStack %s/shop: ", file, w.NS)))
	w.Expect(out).To(ContainSubstring("no application logs. Logs can contain secrets; use --logs to include them.\n"))
	w.Expect(out).To(HaveSuffix(fmt.Sprintf("(unzip -p %s '*/MANIFEST'), then attach it to your bug report.\n", file)))
	content, err := os.ReadFile(file)
	w.Expect(err).NotTo(HaveOccurred())
	files := w.unzipReport(content)
	names := slices.Sorted(maps.Keys(files))
	for _, want := range []string{
		"^why.txt$", "^why.json$", "^tree.txt$", "^tree.json$", "^application.yaml$", "^events.yaml$", "^nodes.yaml$", "^versions.yaml$", "^doctor.txt$",
		"^revisions/1.yaml$", "^operator/deployment.yaml$", "^operator/holdfast-operator-.*.yaml$", "^objects/deployment/shop-web.yaml$", "^objects/statefulset/shop-db.yaml$",
		"^objects/replicaset/shop-web-.*.yaml$", "^objects/pod/shop-web-.*.yaml$", "^objects/persistentvolumeclaim/data-shop-db-0.yaml$", "^objects/configmap/.*.yaml$", "^objects/service/shop-db-headless.yaml$",
	} {
		w.Expect(names).To(ContainElement(MatchRegexp(want)))
		w.Expect(files["MANIFEST"]).To(MatchRegexp("(?m)^  " + strings.Trim(want, "^$") + " +[0-9]+ bytes"))
	}
	w.Expect(files["why.txt"]).To(ContainSubstring("CrashLoop"))
	w.Expect(files["why.txt"]).To(ContainSubstring("last output: (omitted: "))
	w.Expect(files["tree.txt"]).To(ContainSubstring("Pod/shop-db-0"))
	w.Expect(files["events.yaml"]).To(ContainSubstring("object: AppStack/shop"))
	w.Expect(files["versions.yaml"]).To(ContainSubstring("plugin: v1.2.3"))
	w.Expect(files["revisions/1.yaml"]).To(ContainSubstring("- name: MODE\n        value: (hidden)\n"))
	w.Expect(files["nodes.yaml"]).To(ContainSubstring("type: Ready"))
	w.Expect(files["nodes.yaml"]).NotTo(ContainSubstring("allocatable"))
	w.Expect(strings.Join(slices.Collect(maps.Values(files)), "")).NotTo(Or(ContainSubstring("secretmode"), ContainSubstring("filecontent"), ContainSubstring("fieldsV1"), ContainSubstring(crashCanary)))
	w.Expect(files["MANIFEST"]).To(ContainSubstring("  - Secrets (never read)\n"))

	w.Expect(w.run("report", "shop", "-o", file).err).To(MatchError(file + " already exists; specify another file with -o"))
	a := w.run("report", "shop", "-o", "-", "--logs", "--since", "1h", "--operator-namespace", w.NS)
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.errOut).To(ContainSubstring(fmt.Sprintf("Wrote a report for AppStack %s/shop: ", w.NS)))
	// Without a kubelet there are no logs, but the pod has the termination message.
	w.Expect(a.errOut).To(ContainSubstring("could not be read: logs: get log of Pod " + w.NS + "/shop-"))
	files = w.unzipReport([]byte(a.out))
	w.Expect(files["why.txt"]).To(ContainSubstring(crashCanary))
	w.Expect(files["MANIFEST"]).NotTo(ContainSubstring("use --logs to include them"))
	w.Expect(w.run("report", "none", "-o", "-").err).To(MatchError(HavePrefix("application none not found in namespace " + w.NS)))
}

// createOperatorDeployment creates a Deployment like that of the operator.
func (w *world) createOperatorDeployment() {
	w.Helper()
	labels := map[string]string{"app": "operator"}
	w.Expect(w.Create(w.Context(), &appsv1.Deployment{ObjectMeta: w.meta("holdfast-operator"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "holdfast/operator:1.2.3"}}}},
	}})).To(Succeed())
	w.Eventually(func() int { return len(w.podNames("holdfast-operator-")) }, "60s", "50ms").Should(Equal(1))
}

// podNames returns the names of pods with a prefix.
func (w *world) podNames(prefix string) []string {
	w.Helper()
	var out []string
	var list corev1.PodList
	w.Expect(w.List(w.Context(), &list)).To(Succeed())
	for i := range list.Items {
		if p := &list.Items[i]; p.Namespace == w.NS && strings.HasPrefix(p.Name, prefix) {
			out = append(out, p.Name)
		}
	}
	return out
}

func TestReportLimitedPermissions(t *testing.T) {
	w := newStory(t)
	w.create(crashingStack)
	w.Eventually(w.readyCondition, "60s", "50ms").Should(HavePrefix("False/ComponentDegraded"))
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps.holdfast.dev"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets"}, Verbs: []string{"get", "list"}},
	}
	w.Expect(w.Create(w.Context(), &rbacv1.Role{ObjectMeta: w.meta("little"), Rules: rules})).To(Succeed())
	user := "user-of-" + w.NS
	w.Expect(w.Create(w.Context(), &rbacv1.RoleBinding{ObjectMeta: w.meta("little"), RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "little"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: user}}})).To(Succeed())
	config, err := w.Plane.ConfigFor(user)
	w.Expect(err).NotTo(HaveOccurred())
	limited := &world{w.World, filepath.Join(w.TempDir(), "kubeconfig")}
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(config), limited.kubeconfig)).To(Succeed())
	var a result
	w.Eventually(func() error { // the authorizer observes the role with a delay
		a = limited.run("report", "shop", "-o", "-")
		return a.err
	}, "30s", "500ms").Should(Succeed())
	files := w.unzipReport([]byte(a.out))
	w.Expect(files["objects/deployment/shop-web.yaml"]).To(ContainSubstring("kind: Deployment"))
	w.Expect(files).NotTo(HaveKey(HavePrefix("objects/pod/")))
	for _, what := range []string{"Pods: no permission to read", "ConfigMaps: ", "revisions: ", "Events: ", "operator: "} {
		w.Expect(files["MANIFEST"]).To(ContainSubstring("\n  - " + what))
		w.Expect(a.errOut).To(ContainSubstring("\ncould not be read: " + what))
	}
}
