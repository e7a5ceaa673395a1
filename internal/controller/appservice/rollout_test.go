package appservice_test

import (
	"slices"
	"strconv"
	"testing"

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

// startWatcher records every state of every Deployment and AppService from now on.
func (w *world) startWatcher() *watcher.Watcher {
	w.Helper()
	observer, err := watcher.Start(w.Context(), w.Plane.Config, deployments, appServices)
	w.Expect(err).NotTo(HaveOccurred())
	w.Cleanup(observer.Stop)
	return observer
}

// waitObserved waits until the watch is up to date with the AppService and its children.
func (w *world) waitObserved(observer *watcher.Watcher) watcher.State {
	w.Helper()
	key := w.NS + "/" + w.name
	w.Eventually(func() [2]string {
		state := observer.State()
		d, a := state.Get(deployments, key), state.Get(appServices, key)
		if d == nil || a == nil {
			return [2]string{}
		}
		return [2]string{d.GetResourceVersion(), a.GetResourceVersion()}
	}, "60s").Should(Equal([2]string{w.deployment().ResourceVersion, w.app().ResourceVersion}))
	return observer.State()
}

// TestReadyOnlyAfterRollout updates the image several times, also during a rollout.
func TestReadyOnlyAfterRollout(t *testing.T) {
	w := newStory(t)
	eye := w.startWatcher()
	w.create(basicSpec)
	w.waitReady()
	for _, image := range []string{"shop/web:slow", "shop/web:2", "shop/web:slow", "shop/web:3"} {
		w.editSpec(func(s *appsapi.AppServiceSpec) { s.Image = image })
		if image == "shop/web:slow" {
			w.Eventually(w.condition("Ready"), "60s", "20ms").Should(HavePrefix("False/Progressing: Deployment " + w.NS + "/web"))
			continue // a newer update does not wait for it
		}
		w.waitReady()
	}
	w.WaitIdle(w.name)
	trues := w.expectReadyOnlyAfterRollout(w.waitObserved(eye))
	w.Expect(trues).To(BeNumerically(">=", 3))
	w.expectSteadyState()
}

// expectReadyOnlyAfterRollout checks every time at which the AppService reported Ready: the Deployment must have run the
// spec of that generation completely, then or just before. Just before, because the controller-manager may observe
// another change between the operator's read and write. It returns the number of checked times.
func (w *world) expectReadyOnlyAfterRollout(state watcher.State) int {
	w.Helper()
	readyCount := 0
	history := state.History(deployments, w.NS+"/"+w.name)
	for _, e := range state.History(appServices, w.NS+"/"+w.name) {
		app := e.Object.Object
		generation, _, _ := unstructured.NestedInt64(app, "metadata", "generation")
		conditions, _, _ := unstructured.NestedSlice(app, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			if c["type"] != "Ready" || c["status"] != "True" || c["observedGeneration"] != generation {
				continue
			}
			readyCount++
			// Resource versions count the writes to the cluster, so they order events of different kinds.
			var earlier []map[string]any
			for _, d := range history {
				if parseResourceVersion(w, d.ResourceVersion) < parseResourceVersion(w, e.ResourceVersion) {
					earlier = append(earlier, d.Object.Object)
				}
			}
			image, _, _ := unstructured.NestedString(app, "spec", "image")
			generationOfSpec := generationWithImage(earlier, image)
			earlier = earlier[max(0, len(earlier)-3):]
			w.Expect(slices.ContainsFunc(earlier, func(d map[string]any) bool {
				return nestedInt64(d, "status", "observedGeneration") >= generationOfSpec && isRolledOut(d, image)
			})).To(BeTrue(),
				"Ready was reported for image %s, but the Deployment was %v", image, earlier)
		}
	}
	return readyCount
}

// generationWithImage returns the generation in which the Deployment got this image last. Annotations of the Deployment
// controller increase the generation, too.
func generationWithImage(history []map[string]any, image string) int64 {
	var generation int64
	previous := ""
	for _, d := range history {
		current := imageOf(d)
		if current == image && previous != image {
			generation = nestedInt64(d, "metadata", "generation")
		}
		previous = current
	}
	return generation
}

func imageOf(deployment map[string]any) string {
	containers, _, _ := unstructured.NestedSlice(deployment, "spec", "template", "spec", "containers")
	image, _ := asMap(containers[0])["image"].(string)
	return image
}

func nestedInt64(obj map[string]any, path ...string) int64 {
	n, _, _ := unstructured.NestedInt64(obj, path...)
	return n
}

func isRolledOut(deployment map[string]any, image string) bool {
	for _, count := range []string{"replicas", "updatedReplicas", "readyReplicas", "availableReplicas"} {
		if nestedInt64(deployment, "status", count) != nestedInt64(deployment, "spec", "replicas") {
			return false
		}
	}
	return imageOf(deployment) == image
}

func parseResourceVersion(w *world, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	w.Expect(err).NotTo(HaveOccurred())
	return n
}
