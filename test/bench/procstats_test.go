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

// clockTicks per second, in which the kernel counts CPU time for everybody.
const clockTicks = 100

// cpuSeconds is how many seconds a process has computed.
func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	content := readFile(t, fmt.Sprintf("/proc/%d/stat", pid))
	// The second field is a name in parentheses that may contain anything.
	fields := strings.Fields(content[strings.LastIndex(content, ")")+1:])
	const user, system = 11, 12
	return (parseFloat(t, fields[user]) + parseFloat(t, fields[system])) / clockTicks
}

// waitProcessIdle returns when a process has used next to no CPU for a second.
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
	s.Fatal("the operator does not come to rest")
}

// waitAllIdle returns when all processes of a measurement together have hardly computed for two seconds, or after half a
// minute: there are some that never rest.
func (s *harness) waitAllIdle() {
	s.Helper()
	const idleCores = 0.15 // cores; a control plane without work has about half of it
	for deadline, idleSeconds := time.Now().Add(30*time.Second), 0; idleSeconds < 2 && time.Now().Before(deadline); {
		before := s.usage()
		time.Sleep(time.Second)
		idleSeconds++
		if s.usage().since(before).total() > idleCores {
			idleSeconds = 0
		}
	}
}

// residentMemory is the peak and the present resident memory of a process.
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

// usage is CPU seconds by process.
type usage map[string]float64

// Names in a usage; the last two are no processes.
const (
	contenderCPU = "contender"
	apiServerCPU = "apiserver"
	etcdCPU      = "etcd"
	machineCPU   = "everything" // that runs on this machine
	stolenCPU    = "stolen"     // by other machines of the same host
)

// processes are all that take part in a measurement.
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

// total is what the processes of the measurement used together.
func (u usage) total() float64 {
	sum := 0.0
	for name, seconds := range u {
		if name != machineCPU && name != stolenCPU {
			sum += seconds
		}
	}
	return sum
}

// external is what others used meanwhile: a wall time is worth nothing when it is
// large.
func (u usage) external() float64 { return u[machineCPU] + u[stolenCPU] - u.total() }

func (u usage) since(before usage) usage {
	out := usage{}
	for name, seconds := range u {
		out[name] = seconds - before[name]
	}
	return out
}

// describeMachine says on what this was measured.
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

// programVersion is what a program of the control plane says it is.
func programVersion(t testing.TB, program string) string {
	t.Helper()
	assets, err := controlplane.Assets()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(assets, program), "--version").Output()
	if err != nil {
		t.Fatalf("ask %s for its version: %v", program, err)
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// machineMemory is that of the machine.
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

// etcdSizeMB is how large the database of etcd is, without what it could give back.
func (s *harness) etcdSizeMB() float64 {
	s.Helper()
	response, err := http.Get(s.plane.EtcdURL + "/metrics")
	s.must(err)
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	s.must(err)
	_, rest, ok := strings.Cut(string(content), "\netcd_mvcc_db_total_size_in_use_in_bytes ")
	if !ok {
		s.Fatal("etcd does not say how large it is")
	}
	return parseFloat(s, strings.Fields(rest)[0]) / (1 << 20)
}
