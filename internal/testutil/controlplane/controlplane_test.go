package controlplane_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// childEnv makes the test binary start a control plane and hang.
const childEnv = "CONTROLPLANE_TEST_CHILD"

func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		runChild(file)
	}
	os.Exit(m.Run())
}

func TestProcessesCanBeKilledAndRestarted(t *testing.T) {
	p := testutil.ControlPlane(t, controlplane.Options{})
	client := kubernetes.NewForConfigOrDie(p.Config)
	namespace := testutil.Namespace(t, p.Config)
	_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range []*controlplane.Process{p.APIServer, p.Etcd} {
		old := process.Pid()
		if err := process.Kill(); err != nil {
			t.Fatal(err)
		}
		if process.Pid() != 0 {
			t.Errorf("%s: got a PID after Kill", process.Name)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		if process.Pid() == old {
			t.Errorf("%s: got the old PID after a restart", process.Name)
		}
		if err := p.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("after two crashes: %v", err)
	}
}

func TestUsersAreAuthorizedByRBAC(t *testing.T) {
	p := testutil.ControlPlane(t, controlplane.Options{NoControllerManager: true})
	config, err := p.ConfigFor("alice", "developers")
	if err != nil {
		t.Fatal(err)
	}
	_, err = kubernetes.NewForConfigOrDie(config).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("got %v, want alice to be authenticated but forbidden", err)
	}
}

func TestStartReportsFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	dir := t.TempDir()
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir, ExtraArgs: map[string][]string{"kube-apiserver": {"--no-such-flag"}},
	})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") || !strings.Contains(err.Error(), "kube-apiserver.log") {
		t.Errorf("got %v, want an error with the end and the path of the log", err)
	}
	assertNoProcesses(t, dir)
}

func TestProcessesEndWithTest(t *testing.T) {
	if testing.Short() {
		t.Skip("needs an API server: make test-api runs it")
	}
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self)
	child.Env = append(os.Environ(), childEnv+"="+ready)
	child.Stderr = os.Stderr
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []string
	_ = wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		content, _ := os.ReadFile(ready)
		pids = strings.Fields(string(content))
		return len(pids) > 0, nil
	})
	if len(pids) != 3 {
		t.Fatalf("got processes %v of the child, want 3", pids)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		ended := func(context.Context) (bool, error) { return !isRunning(pid), nil }
		if err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 10*time.Second, true, ended); err != nil {
			t.Fatalf("process %d still runs after its test ended", pid)
		}
	}
}

// runChild starts a control plane, writes its PIDs to a file and waits to be killed.
func runChild(file string) {
	p, err := controlplane.Start(context.Background(), controlplane.Options{Dir: filepath.Join(filepath.Dir(file), "plane")})
	if err != nil {
		panic(err)
	}
	pids := strconv.Itoa(p.Etcd.Pid()) + " " + strconv.Itoa(p.APIServer.Pid()) + " " + strconv.Itoa(p.ControllerManager.Pid())
	if err := os.WriteFile(file+".new", []byte(pids), 0o644); err != nil {
		panic(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		panic(err)
	}
	select {}
}

func isRunning(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ") && syscall.Kill(pid, 0) == nil
}

// assertNoProcesses fails if processes with a path below dir are running.
func assertNoProcesses(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("pgrep", "--full", "--list-full", dir).Output(); err == nil {
		t.Errorf("still running:\n%s", out)
	}
}
