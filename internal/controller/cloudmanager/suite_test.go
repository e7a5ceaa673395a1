package cloudmanager

import (
	"flag"
	"os"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // what needs no API server
	}
	stage.Main(m)
}

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"never":   podsim.NeverReady(),
}

// TestStories runs every story at once against the same operator; each has a namespace.
func TestStories(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.ByTag(behaviors), operator.Options{})
	t.Run("group", func(t *testing.T) {
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(&world{s.World(t)})
			})
		}
	})
	s.NeedsNoMore(t)
}

// world is what a story plays in, with the object of config/samples.
type world struct{ *stage.World }

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// create creates the sample, changed if need be.
func (w *world) create(change func(*appsapi.CloudManagerSpec)) {
	w.Helper()
	content, err := os.ReadFile("../../../config/samples/cloudmanager.yaml")
	w.Expect(err).NotTo(HaveOccurred())
	cm := &appsapi.CloudManager{}
	w.Expect(yaml.UnmarshalStrict(content, cm)).To(Succeed())
	cm.Namespace = w.NS
	change(&cm.Spec)
	w.Expect(w.Create(w.Context(), cm)).To(Succeed())
}

func (w *world) edit(change func(*appsapi.CloudManagerSpec)) {
	w.Helper()
	stage.Edit(w.World, w.named(), func(cm *appsapi.CloudManager) { change(&cm.Spec) })
}

func (w *world) named() *appsapi.CloudManager {
	return &appsapi.CloudManager{ObjectMeta: w.meta("cloudmanager-sample")}
}

func (w *world) becomesReady() {
	w.Helper()
	w.BecomesReady(w.named())
}

// phase is what people see in the first column.
func (w *world) phase() string {
	if cm := stage.Find(w.World, w.named()); cm != nil {
		return string(cm.Status.Phase)
	}
	return "gone"
}

func (w *world) deployment(name string) *appsv1.Deployment {
	return stage.Find(w.World, &appsv1.Deployment{ObjectMeta: w.meta(name)})
}

func (w *world) service(name string) *corev1.Service {
	return stage.Find(w.World, &corev1.Service{ObjectMeta: w.meta(name)})
}

func (w *world) set(name string) *appsv1.StatefulSet {
	return stage.Find(w.World, &appsv1.StatefulSet{ObjectMeta: w.meta(name)})
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return stage.Find(w.World, &corev1.PersistentVolumeClaim{ObjectMeta: w.meta(name)})
}

func (w *world) secret(name string) *corev1.Secret {
	return stage.Find(w.World, &corev1.Secret{ObjectMeta: w.meta(name)})
}
