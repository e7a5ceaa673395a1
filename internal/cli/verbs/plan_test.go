package verbs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
)

// writeStack writes a manifest of the stack of the test.
func (w *world) writeStack(spec string) string {
	w.Helper()
	file := filepath.Join(w.TempDir(), "shop.yaml")
	content := "apiVersion: apps.holdfast.dev/v1alpha1\nkind: AppStack\nmetadata: {name: shop}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ")
	w.Expect(os.WriteFile(file, []byte(content), 0o600)).To(Succeed())
	return file
}

// TestPlanAsViewer expects the plan of an administrator, except for the remarks about missing permissions.
func TestPlanAsViewer(t *testing.T) {
	w := newStory(t)
	viewer := w.asUser("viewer", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}})
	viewer.Eventually(func() int { return viewer.run("list").code }, "60s", "100ms").Should(Equal(0)) // permissions take effect with a delay
	expectSamePlan := func(file string) string {
		full, own := w.run("plan", "-f", file), viewer.run("plan", "-f", file)
		w.Expect(own.err).NotTo(HaveOccurred())
		w.Expect(own.out).To(ContainSubstring("No permission to change AppStacks: the plan does not include the validation by the API server."))
		head, _, _ := strings.Cut(full.out, "\n")
		w.Expect(own.out).To(HavePrefix(head+"\n"), full.out)
		return own.out
	}
	w.Expect(expectSamePlan(w.writeStack(chainWithTag("1")))).To(ContainSubstring("Deployment shop-api"))
	w.create(chainWithTag("1"))
	w.waitReady()
	w.Expect(expectSamePlan(w.writeStack(chainWithTag("2")))).To(ContainSubstring("spec.template.spec.containers[app].image: shop/api:1 -> shop/api:2"))
	// The defaults of the API server are no changes.
	w.Expect(expectSamePlan(w.writeStack(chainWithTag("1")))).To(ContainSubstring("shop: 6 unchanged\n"))

	a := viewer.run("plan", "-f", w.writeStack("components: [{name: web}]"))
	w.Expect(a.err).To(MatchError(ContainSubstring(`component "web" must set exactly one of service, stateful, database and job`)))
}
