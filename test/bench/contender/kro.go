package contender

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

const kroModule = "github.com/kubernetes-sigs/kro"

// kro is the released program. web.yaml defines its kind of application.
func kro(name string, flags func(workers int) []string) Contender {
	return Contender{
		Name: name, Kind: schema.GroupVersionKind{Group: "kro.run", Version: "v1alpha1", Kind: "Web"},
		module: "kro", pkg: kroModule + "/cmd/controller", usesReadyz: true,
		args: func(workers int, health string) []string {
			return append([]string{"--health-probe-bind-address=" + health, "--metrics-bind-address=0"}, flags(workers)...)
		},
		install: installKroCRDs, afterStart: createWebDefinition,
		spec: func(image string, replicas int64) any {
			return map[string]any{"image": image, "replicas": replicas, "port": int64(80), "targetPort": int64(8080)}
		},
	}
}

// stockFlags are the flags that its chart sets to other values than the program's defaults, without leader election,
// which a single process does not need.
func stockFlags(int) []string {
	return []string{"--zap-log-level=info", "--zap-encoder=console", "--zap-devel=false"}
}

// tunedFlags increase the concurrency and reduce the waiting time. --client-qps is set as users would do; in this
// release it has no effect: the limit is off unless the kubeconfig sets one.
func tunedFlags(workers int) []string {
	return append(stockFlags(workers),
		fmt.Sprintf("--dynamic-controller-concurrent-reconciles=%d", workers),
		"--client-qps=10000", "--client-burst=20000",
		"--instance-requeue-interval=100ms",
		"--dynamic-controller-rate-limiter-min-delay=5ms",
		"--dynamic-controller-rate-limiter-rate-limit=10000", "--dynamic-controller-rate-limiter-burst-limit=10000",
		"--rgd-progress-requeue-delay=100ms",
	)
}

// eventDrivenFlags requeue only on events, which its chart allows: a reconciliation with a change is followed by another
// one only after an event of a child. Failures are not retried, either.
func eventDrivenFlags(workers int) []string {
	return append(tunedFlags(workers), "--instance-requeue-interval=0")
}

// installKroCRDs installs the CRDs of the chart in the module of the program.
func installKroCRDs(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", kroModule)
	cmd.Dir = filepath.Join(repoRoot(t), peersDir, "kro")
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("find the module of kro: %v", err)
	}
	if _, err := plane.InstallCRDs(filepath.Join(strings.TrimSpace(string(out)), "helm", "crds")); err != nil {
		t.Fatalf("install the CRDs of kro: %v", err)
	}
}

// createWebDefinition defines the kind of the applications and waits until kro serves it.
func createWebDefinition(t testing.TB, plane *controlplane.Plane) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repoRoot(t), peersDir, "kro", "web.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var web unstructured.Unstructured
	if err := yaml.Unmarshal(content, &web.Object); err != nil {
		t.Fatalf("read web.yaml: %v", err)
	}
	client, err := dynamic.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	definitions := client.Resource(schema.GroupVersionResource{Group: "kro.run", Version: "v1alpha1", Resource: "resourcegraphdefinitions"})
	if _, err := definitions.Create(t.Context(), &web, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create ResourceGraphDefinition %s: %v", web.GetName(), err)
	}
	var last any
	err = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		got, err := definitions.Get(ctx, web.GetName(), metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		last = got.Object["status"]
		state, _, _ := unstructured.NestedString(got.Object, "status", "state")
		return state == "Active", nil
	})
	if err != nil {
		t.Fatalf("ResourceGraphDefinition %s is not Active: %v; status: %v", web.GetName(), err, last)
	}
}
