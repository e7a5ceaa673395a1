package appservice_test

import (
	"strconv"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/watcher"
)

var (
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	appServices = schema.GroupVersionResource{Group: "apps.holdfast.dev", Version: "v1alpha1", Resource: "appservices"}
)

// watches sees every state of every Deployment and AppService from now on.
func (w *world) watches() *watcher.Watcher {
	w.Helper()
	eye, err := watcher.Start(w.Context(), w.plane.Config, deployments, appServices)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(eye.Stop)
	return eye
}

func init() {
	stories["image update"] = func(w *world) {
		eye := w.watches()
		w.create(usual)
		w.becomesReady()
		for _, image := range []string{"shop/web:slow", "shop/web:2", "shop/web:slow", "shop/web:3"} {
			w.change(func(s *appsapi.AppServiceSpec) { s.Image = image })
			if image == "shop/web:slow" {
				w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("False/Progressing: Deployment " + w.ns + "/web"))
				continue // a newer one does not wait for it
			}
			w.becomesReady()
		}
		w.fallsSilent()
		trues := w.neverReadyTooSoon(eye.State())
		w.Expect(trues).To(BeNumerically(">=", 3))
		w.settles()
	}
}

// neverReadyTooSoon looks at every moment at which the AppService said that it is ready:
// the Deployment, as it was then, ran what the spec of that generation asks for, and ran
// it completely. It returns how many moments there were.
func (w *world) neverReadyTooSoon(seen watcher.State) int {
	w.Helper()
	trues := 0
	history := seen.History(deployments, w.ns+"/"+w.name)
	for _, e := range seen.History(appServices, w.ns+"/"+w.name) {
		app := e.Object.Object
		generation, _, _ := unstructured.NestedInt64(app, "metadata", "generation")
		conditions, _, _ := unstructured.NestedSlice(app, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			if c["type"] != "Ready" || c["status"] != "True" || c["observedGeneration"] != generation {
				continue
			}
			trues++
			// Versions count the writes to the whole cluster, so they tell what was when.
			var then map[string]any
			for _, d := range history {
				if version(w, d.ResourceVersion) < version(w, e.ResourceVersion) {
					then = d.Object.Object
				}
			}
			image, _, _ := unstructured.NestedString(app, "spec", "image")
			w.Expect(then).NotTo(BeNil())
			w.runsCompletely(then, image)
		}
	}
	return trues
}

func (w *world) runsCompletely(deployment map[string]any, image string) {
	w.Helper()
	number := func(path ...string) int64 {
		n, _, _ := unstructured.NestedInt64(deployment, path...)
		return n
	}
	containers, _, _ := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	w.Expect(asMap(containers[0])["image"]).To(Equal(image))
	w.Expect(number("status", "observedGeneration")).To(Equal(number("metadata", "generation")))
	for _, count := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
		w.Expect(number("status", count)).To(Equal(number("spec", "replicas")), count)
	}
}

func version(w *world, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	w.Expect(err).NotTo(HaveOccurred())
	return n
}
