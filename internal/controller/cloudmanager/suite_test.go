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
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // tests without an API server
	}
	harness.Main(m, shared)
}

// behaviors maps image tags to pod behaviors.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"never":   podsim.NeverReady(),
}

var shared = &harness.Shared{Behavior: harness.BehaviorByTag(behaviors)}

// newStory returns a namespace on the shared operator and makes the test run in parallel with others.
func newStory(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return &world{shared.NewWorld(t)}
}

// world is the namespace of a test, with the object of config/samples.
type world struct{ *harness.World }

func (w *world) objectMeta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// create creates the sample with changes.
func (w *world) create(change func(*appsapi.CloudManagerSpec)) {
	w.Helper()
	content, err := os.ReadFile("../../../config/samples/cloudmanager.yaml")
	w.Expect(err).NotTo(HaveOccurred())
	cm := &appsapi.CloudManager{}
	w.Expect(yaml.UnmarshalStrict(content, cm)).To(Succeed())
	cm.Namespace = w.NS
	change(&cm.Spec)
	if cm.Spec.DB.RootPass != "" {
		cm.Annotations = map[string]string{appsapi.DefaultKeys.Trial: "true"}
	}
	w.Expect(w.Create(w.Context(), w.rootSecret())).To(Succeed())
	w.Expect(w.Create(w.Context(), cm)).To(Succeed())
}

// rootPassword is the root password of the sample.
const rootPassword = "password of the sample"

// rootSecret returns the Secret that the sample references.
func (w *world) rootSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: w.objectMeta("cm-root"), StringData: map[string]string{"password": rootPassword}}
}

func (w *world) editSpec(change func(*appsapi.CloudManagerSpec)) {
	w.Helper()
	harness.Edit(w.World, w.cloudManager(), func(cm *appsapi.CloudManager) { change(&cm.Spec) })
}

func (w *world) cloudManager() *appsapi.CloudManager {
	return &appsapi.CloudManager{ObjectMeta: w.objectMeta("cloudmanager-sample")}
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(w.cloudManager())
}

// phase returns the first printer column.
func (w *world) phase() string {
	if cm := harness.Find(w.World, w.cloudManager()); cm != nil {
		return string(cm.Status.Phase)
	}
	return "gone"
}

func (w *world) deployment(name string) *appsv1.Deployment {
	return harness.Find(w.World, &appsv1.Deployment{ObjectMeta: w.objectMeta(name)})
}

func (w *world) service(name string) *corev1.Service {
	return harness.Find(w.World, &corev1.Service{ObjectMeta: w.objectMeta(name)})
}

func (w *world) statefulSet(name string) *appsv1.StatefulSet {
	return harness.Find(w.World, &appsv1.StatefulSet{ObjectMeta: w.objectMeta(name)})
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	return harness.Find(w.World, &corev1.PersistentVolumeClaim{ObjectMeta: w.objectMeta(name)})
}

func (w *world) secret(name string) *corev1.Secret {
	return harness.Find(w.World, &corev1.Secret{ObjectMeta: w.objectMeta(name)})
}
