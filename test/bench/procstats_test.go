package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// clockTicks is the number of kernel clock ticks per second.
const clockTicks = 100

// cpuSeconds returns the CPU time of a process.
func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	content := readFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	// The second field is a name in parentheses that may contain any character.
	fields := strings.Fields(content[strings.LastIndex(content, ")")+1:])
	const user, system = 11, 12
	return (parseFloat(t, fields[user]) + parseFloat(t, fields[system])) / clockTicks
}

// waitProcessIdle waits until a process has used almost no CPU for a second.
func (s *harness) waitProcessIdle(pid int) {
	s.Helper()
	last := cpuSeconds(s, pid)
	for range int(waitTimeout / time.Second) {
		time.Sleep(time.Second)
		now := cpuSeconds(s, pid)
		if now-last < 0.02 {
			return
		}
		last = now
	}
	s.Fatal("the operator does not become idle")
}

// waitAllIdle waits until all measured processes together have used almost no CPU for two seconds, for at most half a
// minute: some contenders never become idle.
func (s *harness) waitAllIdle() {
	s.Helper()
	const idleCores = 0.15 // an idle control plane uses about half of it
	for deadline, idleSeconds := time.Now().Add(30*time.Second), 0; idleSeconds < 2 && time.Now().Before(deadline); {
		before := s.usage()
		time.Sleep(time.Second)
		idleSeconds++
		if s.usage().since(before).total() > idleCores {
			idleSeconds = 0
		}
	}
}

// residentMemory returns the peak and the current resident memory of a process.
func residentMemory(t testing.TB, pid int) (peak, current float64) {
	t.Helper()
	status := readFile(t, fmt.Sprintf("/proc/%d/status", pid))
	field := func(name string) float64 {
		_, rest, ok := strings.Cut(status, name+":")
		if !ok {
			t.Fatalf("no %s of process %d", name, pid)
		}
		return parseFloat(t, strings.Fields(rest)[0]) / 1024
	}
	return field("VmHWM"), field("VmRSS")
}

// usage is CPU time by process.
type usage map[string]float64

// Names in a usage; the last two are not processes.
const (
	contenderCPU = "contender"
	apiServerCPU = "apiserver"
	etcdCPU      = "etcd"
	machineCPU   = "everything" // all processes of the machine
	stolenCPU    = "stolen"     // CPU steal
)

// processes returns all measured processes.
func (s *harness) processes() map[string]int {
	all := map[string]int{
		etcdCPU: s.plane.Etcd.Pid(), apiServerCPU: s.plane.APIServer.Pid(),
		"controller-manager": s.plane.ControllerManager.Pid(), "driver": os.Getpid(),
	}
	switch {
	case s.measuredProcess != nil:
		all[contenderCPU] = s.measuredProcess.Pid()
	case s.op != nil:
		all[contenderCPU] = s.op.Pid()
	}
	return all
}

func (s *harness) usage() usage {
	s.Helper()
	u := usage{}
	for name, pid := range s.processes() {
		u[name] = cpuSeconds(s, pid)
	}
	// cpu user nice system idle iowait irq softirq
	fields := strings.Fields(strings.SplitN(readFile(s, "/proc/stat"), "\n", 2)[0])
	for _, i := range []int{1, 2, 3, 6, 7} {
		u[machineCPU] += parseFloat(s, fields[i]) / clockTicks
	}
	u[stolenCPU] = stolenSeconds()
	return u
}

// total returns the CPU time of the measured processes.
func (u usage) total() float64 {
	sum := 0.0
	for name, seconds := range u {
		if name != machineCPU && name != stolenCPU {
			sum += seconds
		}
	}
	return sum
}

// external returns the CPU time of other processes and CPU steal: wall times are unreliable if it is large.
func (u usage) external() float64 { return u[machineCPU] + u[stolenCPU] - u.total() }

func (u usage) since(before usage) usage {
	out := usage{}
	for name, seconds := range u {
		out[name] = seconds - before[name]
	}
	return out
}

// describeMachine describes the machine of the measurement.
func describeMachine(t testing.TB, fsync bool) map[string]string {
	model := "unknown"
	for line := range strings.SplitSeq(readFile(t, "/proc/cpuinfo"), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	etcd := "without fsync"
	if fsync {
		etcd = "with fsync in rounds, without in scenarios"
	}
	return map[string]string{
		"etcd": etcd, "kernel": strings.TrimSpace(readFile(t, "/proc/sys/kernel/osrelease")), "cpu": model,
		"cores": strconv.Itoa(runtime.NumCPU()), "go": runtime.Version(), "memory": machineMemory(t),
		"engines": programVersion(t, "kube-apiserver") + ", " + programVersion(t, "etcd"),
	}
}

// programVersion returns the version that a program reports.
func programVersion(t testing.TB, program string) string {
	t.Helper()
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(assets, program), "--version").Output()
	if err != nil {
		t.Fatalf("get version of %s: %v", program, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

func machineMemory(t testing.TB) string {
	t.Helper()
	fields := strings.Fields(readFile(t, "/proc/meminfo")) // MemTotal: and so many kB
	return fmt.Sprintf("%.0f GiB", parseFloat(t, fields[1])/(1<<20))
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func parseFloat(t testing.TB, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// etcdSizeMB returns the size in use of the etcd database.
func (s *harness) etcdSizeMB() float64 {
	s.Helper()
	response, err := http.Get(s.plane.EtcdURL + "/metrics")
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	s.must(err)
	_, rest, ok := strings.Cut(string(content), "\netcd_mvcc_db_total_size_in_use_in_bytes ")
	if !ok {
		s.Fatal("etcd does not report its size")
	}
	return parseFloat(s, strings.Fields(rest)[0]) / (1 << 20)
}
