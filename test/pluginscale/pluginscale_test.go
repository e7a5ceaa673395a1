// Package pluginscale measures the plugin in a namespace with thousands of unrelated pods. Its run time must depend
// on the application, not on other objects in the namespace.
//
// Safety rule: the time is measured from the start to the end of the command, and requests are counted in the
// audit log of the API server.
package pluginscale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	appsapi "github.com/holdfast-dev/holdfast/api/v1alpha1"
	"github.com/holdfast-dev/holdfast/internal/cli"
	"github.com/holdfast-dev/holdfast/internal/cli/root"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/harness"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

func TestMain(m *testing.M) { harness.Main(m) }

// longRun enables the full run: HOLDFAST_LONG=1 go test ./test/pluginscale.
var longRun = os.Getenv("HOLDFAST_LONG") != ""

// Budgets.
const (
	maxDuration = time.Second
	maxRequests = 19
	rounds      = 5
)

const spec = `
components:
- {name: db, stateful: {image: "shop/db:1", storage: [{name: data, mountPath: /data, size: 1Gi}]}}
- {name: web, dependsOn: [db], service: {image: "shop/web:missing", replicas: 3, ports: [{port: 80}]}}
- {name: mail, service: {image: "shop/mail:1", replicas: 2, ports: [{port: 25}]}}
`

// pluginUser is the user whose requests are counted.
const pluginUser = "somebody-with-kubectl"

func TestPluginInCrowdedNamespace(t *testing.T) {
	otherPods := 500
	if longRun {
		otherPods = 5_000
	}
	program, built := filepath.Join(t.TempDir(), "kubectl-holdfast"), make(chan error, 1)
	go func() {
		out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/kubectl-holdfast").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("build the plugin: %w\n%s", err, out)
		}
		built <- err
	}()
	s := harness.New(t, harness.BehaviorByTag(map[string]podsim.Behavior{"missing": podsim.ImageNotFound()}), operator.Options{NoRace: true})
	w := s.NewWorld(t)
	config, err := s.Plane.ConfigFor(pluginUser, "system:masters")
	w.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	w.Expect(clientcmd.WriteToFile(controlplane.Kubeconfig(config), kubeconfig)).To(Succeed())
	app := &appsapi.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: w.NS, Name: "shop"}}
	w.Expect(yaml.UnmarshalStrict([]byte(spec), &app.Spec)).To(Succeed())
	w.Expect(w.Create(w.Context(), app)).To(Succeed())
	createOtherPods(w, otherPods)
	w.Eventually(func() string { return w.Condition(app, "Ready") }, "60s", "100ms").Should(HavePrefix("False/ComponentDegraded"))

	w.Expect(<-built).To(Succeed())

	runners := map[string]func(context.Context, []string) (string, int){"in process": runInProcess, "as a process": runProgram(program)}
	t.Logf("%d unrelated pods; median of %d", otherPods, rounds)
	t.Logf("%-8s %-14s %10s %10s %10s", "verb", "", "median", "worst", "requests")
	for _, verb := range []string{"status", "why", "tree"} {
		for _, mode := range []string{"in process", "as a process"} {
			f := measure(w, runners[mode], []string{"--kubeconfig", kubeconfig, "-n", w.NS, verb, "shop"})
			t.Logf("%-8s %-14s %10s %10s %10d", verb, mode, f.median.Round(time.Millisecond), f.worst.Round(time.Millisecond), f.requests)
			if f.median > maxDuration {
				t.Errorf("%s %s takes %s, want at most %s", verb, mode, f.median, maxDuration)
			}
			if f.requests > maxRequests || f.requests < 5 {
				t.Errorf("%s %s makes %d requests, want 5 to %d", verb, mode, f.requests, maxRequests)
			}
		}
	}
}

// createOtherPods creates unrelated pods without a kubelet.
func createOtherPods(w *harness.World, n int) {
	w.Helper()
	config := *w.Plane.Config
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(&config)
	w.Expect(err).NotTo(HaveOccurred())
	start := time.Now()
	group, ctx := errgroup.WithContext(w.Context())
	group.SetLimit(48)
	for i := range n {
		group.Go(func() error {
			_, err := kube.CoreV1().Pods(w.NS).Create(ctx, newOtherPod(i), metav1.CreateOptions{})
			return err
		})
	}
	w.Expect(group.Wait()).To(Succeed())
	w.Logf("created %d pods in %s", n, time.Since(start).Round(time.Second))
}

// newOtherPod returns an unrelated pod of typical size.
func newOtherPod(i int) *corev1.Pod {
	env := make([]corev1.EnvVar, 20)
	for j := range env {
		env[j] = corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", j), Value: strings.Repeat("x", 40)}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("stranger-%d", i), Labels: map[string]string{"app.kubernetes.io/name": "stranger", "app.kubernetes.io/instance": "shop"}},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.com/never"}},
			Containers:      []corev1.Container{{Name: "app", Image: "other/app:1", Env: env}},
		},
	}
}

// measurement is the cost of a verb.
type measurement struct {
	median, worst time.Duration
	requests      int
}

// measure runs the plugin several times, after one run to warm up the caches of the machine.
func measure(w *harness.World, call func(context.Context, []string) (string, int), args []string) measurement {
	w.Helper()
	call(w.Context(), args)
	var f measurement
	var took []time.Duration
	from, err := w.AuditLog.Mark(w.Context(), w.Plane.Config)
	w.Expect(err).NotTo(HaveOccurred())
	for range rounds {
		start := time.Now()
		out, code := call(w.Context(), args)
		took = append(took, time.Since(start))
		w.Expect(code).To(Equal(cli.ExitNotReady), out)
		w.Expect(out).To(And(ContainSubstring(`Image "shop/web:missing" does not exist`), Not(ContainSubstring("stranger-"))))
	}
	events, err := w.AuditLog.Since(w.Context(), w.Plane.Config, from)
	w.Expect(err).NotTo(HaveOccurred())
	events = events.By(pluginUser)
	f.requests = (len(events) + rounds - 1) / rounds
	for _, e := range events {
		if e.Verb == "list" && e.ObjectRef.Namespace != "" && !strings.Contains(e.RequestURI, "Selector=") {
			w.Errorf("%s lists all objects of the kind in the namespace", e.RequestURI)
		}
	}
	slices.Sort(took)
	f.median, f.worst = took[len(took)/2], took[len(took)-1]
	return f
}

func runInProcess(ctx context.Context, args []string) (string, int) {
	var out bytes.Buffer
	cmd := root.Command("dev")
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(ctx)
	return fmt.Sprintf("%s%v", out.String(), err), cli.ExitCode(err)
}

func runProgram(program string) func(context.Context, []string) (string, int) {
	return func(ctx context.Context, args []string) (string, int) {
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		return fmt.Sprintf("%s%v", out, err), cli.ExitCode(err)
	}
}
