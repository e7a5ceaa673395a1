package appstack_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// behaviorOf returns the behavior of the image tag; jobs in the documentation succeed.
func behaviorOf(pod *corev1.Pod) podsim.Behavior {
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever && strings.HasPrefix(pod.Spec.Containers[0].Image, "example.com/") {
		return podsim.Succeeded()
	}
	return harness.BehaviorByTag(behaviors)(pod)
}

// TestDocsExamples applies the examples of the documentation for users.
func TestDocsExamples(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../docs/user/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("found no user documentation: %v", err)
	}
	for _, page := range append(pages, "../../../README.md") {
		if !slices.Contains(pagesWithoutExamples, filepath.Base(page)) {
			t.Run(filepath.Base(page), func(t *testing.T) { newStory(t).applyExamples(page) })
		}
	}
}

// pagesWithoutExamples are the pages about commands instead of objects.
var pagesWithoutExamples = []string{"causes.md", "center.md", "gitops.md", "plan.md", "plugin.md", "why.md"}

// applyExamples applies every example of a page in order; each application must become ready, or report what the cluster
// lacks.
func (w *world) applyExamples(page string) {
	parsed, err := markdown.Read(page)
	w.Expect(err).NotTo(HaveOccurred())
	examples := slices.DeleteFunc(parsed.Blocks, func(b markdown.Block) bool { return b.Info != "yaml" })
	w.Expect(examples).NotTo(BeEmpty(), "%s shows nothing", page)
	for _, e := range examples {
		for text := range strings.SplitSeq(e.Text, "\n---\n") {
			obj := &unstructured.Unstructured{}
			w.Expect(yaml.UnmarshalStrict([]byte(text), &obj.Object)).To(Succeed(), text)
			obj.SetNamespace(w.NS)
			strict := client.FieldValidation("Strict") // as kubectl does
			w.Expect(w.Create(w.Context(), obj, strict)).To(Succeed(), text)
			switch obj.GetKind() {
			case "AppStack":
				w.WaitReady(&appsapi.AppStack{ObjectMeta: w.objectMeta(obj.GetName())})
			case "CloudManager":
				w.WaitReady(&appsapi.CloudManager{ObjectMeta: w.objectMeta(obj.GetName())})
			case "AppService":
				app := &appsapi.AppService{ObjectMeta: w.objectMeta(obj.GetName())}
				if _, gateway, _ := unstructured.NestedMap(obj.Object, "spec", "expose", "gatewayRef"); gateway {
					// There is no Gateway here; a test of AppService has one.
					w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s").Should(ContainSubstring("install the Gateway API"))
					continue
				}
				w.WaitReady(app)
			}
		}
	}
}
