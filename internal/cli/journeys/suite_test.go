// Package journeys_test plays what people do with the verbs that change applications: the
// whole plugin against a real API server and the operator.
package journeys_test

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
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/stage"
)

func TestMain(m *testing.M) { stage.Main(m) }

// behaviors are what becomes of pods, by the tag of their image.
var behaviors = map[string]podsim.Behavior{
	"missing": podsim.ImageNotFound(),
	"slow":    podsim.Slow(2 * time.Second),
	"done":    podsim.Succeeded(),
	"crash":   podsim.CrashLoop(1).Saying("connect to the database\n" + crashCanary),
}

// stories are what users live through, by name.
var stories = map[string]func(*world){}

func TestStories(t *testing.T) {
	t.Parallel()
	s := stage.New(t, stage.ByTag(behaviors), operator.Options{LeaderElection: true})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(s.Plane.Config), kubeconfig); err != nil {
		t.Fatal(err)
	}
	t.Run("group", func(t *testing.T) {
		for name, story := range stories {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				story(&world{s.World(t), kubeconfig})
			})
		}
	})
	s.NeedsNoMore(t)
}

// world is what a story plays in.
type world struct {
	*stage.World
	kubeconfig string
}

// answer is what the plugin says.
type answer struct {
	out, errOut string
	err         error
	code        int
}

// plugin runs the plugin as a person would.
func (w *world) plugin(args ...string) answer {
	w.Helper()
	return w.pluginWith(io.Discard, args...)
}

// pluginWith also tells somebody else what it says meanwhile.
func (w *world) pluginWith(told io.Writer, args ...string) answer {
	w.Helper()
	var out, errOut bytes.Buffer
	cmd := root.Command("v1.2.3")
	cmd.SetArgs(append([]string{"--kubeconfig", w.kubeconfig, "-n", w.NS}, args...))
	cmd.SetIn(strings.NewReader(""))
	cmd.SetOut(&out)
	cmd.SetErr(io.MultiWriter(&errOut, told))
	err := cmd.ExecuteContext(w.Context())
	return answer{out.String(), golden.WithoutProgress(errOut.String()), err, cli.ExitCode(err)}
}

// does runs the plugin and expects it to succeed.
func (w *world) does(args ...string) string {
	w.Helper()
	a := w.plugin(args...)
	w.Expect(a.err).NotTo(HaveOccurred(), "kubectl holdfast %v\n%s%s", args, a.out, a.errOut)
	return a.out
}

func (w *world) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: w.NS, Name: name}
}

// named is the stack of the story.
func (w *world) named() *appsapi.AppStack { return &appsapi.AppStack{ObjectMeta: w.meta("shop")} }

func (w *world) stack() *appsapi.AppStack {
	w.Helper()
	s := stage.Find(w.World, w.named())
	w.Expect(s).NotTo(BeNil())
	return s
}

// create creates the stack, and apply gives it another spec.
func (w *world) create(spec string) {
	w.Helper()
	app := w.named()
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
}

func (w *world) apply(spec string) {
	w.Helper()
	stage.Edit(w.World, w.named(), func(s *appsapi.AppStack) {
		s.Spec = appsapi.AppStackSpec{}
		w.Expect(yaml.UnmarshalStrict([]byte(spec), &s.Spec)).To(Succeed())
	})
}

func (w *world) becomesReady() {
	w.Helper()
	w.BecomesReady(w.named())
}

// data are the claims and the Secrets of the namespace.
func (w *world) data() []client.Object {
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

// sample creates an object of config/samples.
func sample[T client.Object](w *world, file string, obj T) T {
	w.Helper()
	content, err := os.ReadFile(filepath.Join("../../../config/samples", file))
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(yaml.UnmarshalStrict(content, obj)).To(Succeed())
	obj.SetNamespace(w.NS)
	w.Expect(w.Create(w.Context(), obj)).To(Succeed())
	return obj
}
