// Package verbs_test runs the commands of the plugin against a real API server with the operator.
package verbs_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/golden"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

var shared = &harness.Shared{Behavior: harness.BehaviorByTag(behaviors), Operator: operator.Options{LeaderElection: true}}

func TestMain(m *testing.M) { harness.Main(m, shared) }

// behaviors are the simulated behaviors of pods, by image tag.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"slow":    podsim.Slow(2 * time.Second),
	"done":    podsim.Succeeded(),
	"crash":   podsim.CrashLoop(1).WithMessage("connect to the database\n" + crashCanary),
}

// newStory returns a world with its own namespace. The test runs in parallel on the shared operator.
func newStory(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{shared.NewWorld(t), filepath.Join(t.TempDir(), "kubeconfig")}
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(w.Plane.Config), w.kubeconfig)).To(Succeed())
	return w
}

// world is the environment of a test.
type world struct {
	*harness.World
	kubeconfig string
}

// result is the result of a command.
type result struct {
	out, errOut string
	err         error
	code        int
}

// run runs the plugin.
func (w *world) run(args ...string) result {
	w.Helper()
	return w.runWithStderr(io.Discard, args...)
}

// runWithStderr runs the plugin and copies standard error to a writer.
func (w *world) runWithStderr(stderr io.Writer, args ...string) result {
	w.Helper()
	var out, errOut bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS}, args...))
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(io.MultiWriter(&errOut, stderr))
	err := cmd.ExecuteContext(w.Context())
	return result{out.String(), golden.StripProgress(errOut.String()), err, cli.ExitCode(err)}
}

// mustRun runs the plugin and expects it to succeed.
func (w *world) mustRun(args ...string) string {
	w.Helper()
	a := w.run(args...)
	w.Expect(a.err).NotTo(HaveOccurred(), "kubectl holdfast %v\n%s%s", args, a.out, a.errOut)
	return a.out
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// stackKey returns the stack of the test.
func (w *world) stackKey() *appsapi.AppStack { return &appsapi.AppStack{ObjectMeta: w.meta("shop")} }

func (w *world) stack() *appsapi.AppStack {
	w.Helper()
	s := harness.Find(w.World, w.stackKey())
	w.Expect(s).NotTo(BeNil())
	return s
}

// create creates the stack.
func (w *world) create(spec string) {
	w.Helper()
	app := w.stackKey()
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
}

func (w *world) apply(spec string) {
	w.Helper()
	harness.Edit(w.World, w.stackKey(), func(s *appsapi.AppStack) {
		s.Spec = appsapi.AppStackSpec{}
		w.Expect(yaml.UnmarshalStrict([]byte(spec), &s.Spec)).To(Succeed())
	})
}

func (w *world) waitReady() {
	w.Helper()
	w.WaitReady(w.stackKey())
}

// dataObjects returns the claims and Secrets of the namespace.
func (w *world) dataObjects() []client.Object {
	w.Helper()
	var claims corev1.PersistentVolumeClaimList
	var secrets corev1.SecretList
	w.Expect(w.List(w.Context(), &claims, client.InNamespace(w.NS))).To(Succeed())
	w.Expect(w.List(w.Context(), &secrets, client.InNamespace(w.NS))).To(Succeed())
	var out []client.Object
	for i := range claims.Items {
		out = append(out, &claims.Items[i])
	}
	for i := range secrets.Items {
		out = append(out, &secrets.Items[i])
	}
	return out
}

// createSample creates an object of config/samples.
func createSample[T client.Object](w *world, file string, obj T) T {
	w.Helper()
	content, err := os.ReadFile(filepath.Join("../../../config/samples", file))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(yaml.UnmarshalStrict(content, obj)).To(Succeed())
	obj.SetNamespace(w.NS)
	if cm, ok := client.Object(obj).(*appsapi.CloudManager); ok {
		ref := cm.Spec.DB.RootPasswordSecretRef
		w.Expect(w.Create(w.Context(), &corev1.Secret{ObjectMeta: w.meta(ref.Name), StringData: map[string]string{ref.Key: "password of the sample"}})).To(Succeed())
	}
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
	return obj
}
