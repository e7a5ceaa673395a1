package verbs_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
)

func TestVersion(t *testing.T) {
	w := newStory(t)
	w.Expect(w.mustRun("version", "--client")).To(Equal("plugin  v1.2.3\n"))
	a := w.run("version", "--operator-namespace", w.NS)
	w.Expect(a.err).NotTo(HaveOccurred())
	w.Expect(a.out).To(MatchRegexp(`^plugin      v1\.2\.3\noperator    unknown: Deployment ` + w.NS + `/holdfast-operator not found; kubectl holdfast doctor checks the installation\nKubernetes  v1\.\d+\.\d+\S*\n$`))
	labels := map[string]string{"app": "operator"}
	d := &appsv1.Deployment{ObjectMeta: w.meta("holdfast-operator"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "operator", Image: "holdfast/operator:1.2.3"}}}},
	}}
	w.Expect(w.Create(w.Context(), d)).To(Succeed())
	a = w.run("version", "--operator-namespace", w.NS)
	w.Expect(a.out).To(ContainSubstring("\noperator    1.2.3\n"))
	w.Expect(a.errOut).To(BeEmpty())
	harness.Edit(w.World, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "holdfast/operator:v1.3.0" })
	a = w.run("version", "--operator-namespace", w.NS, "-o", "jsonpath={.operator.version}")
	w.Expect(a.out).To(Equal("v1.3.0\n"))
	w.Expect(a.errOut).To(HavePrefix("The plugin has version v1.2.3 and the operator has version v1.3.0; install the same version"))
	w.Expect(a.code).To(Equal(0))
	harness.Edit(w.World, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "holdfast/operator" })
	w.Expect(w.mustRun("version", "--operator-namespace", w.NS)).To(ContainSubstring("\noperator    unknown: its Deployment has no version label and its image no tag: holdfast/operator\n"))
}

// TestCompletion completes applications and components.
func TestCompletion(t *testing.T) {
	w := newStory(t)
	w.create(threeComponents)
	createSample(w, "appservice.yaml", &appsapi.AppService{})
	words := func(args ...string) []string {
		a := w.run(append([]string{"__complete", "--kubeconfig", w.kubeconfig, "-n", w.NS}, args...)...)
		w.Expect(a.err).NotTo(HaveOccurred())
		lines := strings.Split(strings.TrimSpace(a.out), "\n")
		return lines[:len(lines)-1] // the last line is a directive for the shell
	}
	for _, verb := range []string{"history", "rollback", "suspend", "resume", "restart", "wait"} {
		w.Expect(words(verb, "")).To(Equal([]string{"shop", "web"}), verb)
	}
	w.Expect(words("wait", "appsvc/")).To(Equal([]string{"appsvc/web"}))
	w.Expect(words("restart", "shop", "--component", "")).To(Equal([]string{"migrate", "db", "web"}))
	w.Expect(words("restart", "none", "--component", "")).To(BeEmpty())
}
