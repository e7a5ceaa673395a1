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

// cpu is how many seconds a process has computed.
func cpu(t testing.TB, pid int) float64 {
	t.Helper()
	content := read(t, fmt.Sprintf("/proc/%d/stat", pid))
	// The second field is a name in parentheses that may contain anything.
	fields := strings.Fields(content[strings.LastIndex(content, ")")+1:])
	const user, system = 11, 12
	return (number(t, fields[user]) + number(t, fields[system])) / clockTicks
}

// idle returns when a process has used next to no CPU for a second.
func (s *stage) idle(pid int) {
	s.Helper()
	last := cpu(s, pid)
	for range int(patience / time.Second) {
		time.Sleep(time.Second)
		now := cpu(s, pid)
		if now-last < 0.02 {
			return
		}
		last = now
	}
	s.Fatal("the operator does not come to rest")
}

// comeToRest returns when all processes of a measurement together have hardly computed for two seconds, or after half a
// minute: there are some that never rest.
func (s *stage) comeToRest() {
	s.Helper()
	const atRest = 0.15 // cores; a control plane without work has about half of it
	for deadline, still := time.Now().Add(30*time.Second), 0; still < 2 && time.Now().Before(deadline); {
		before := s.usage()
		time.Sleep(time.Second)
		still++
		if s.usage().since(before).total() > atRest {
			still = 0
		}
	}
}

// memory is the peak and the present resident memory of a process.
func memory(t testing.TB, pid int) (peak, now float64) {
	t.Helper()
	status := read(t, fmt.Sprintf("/proc/%d/status", pid))
	field := func(name string) float64 {
		_, rest, ok := strings.Cut(status, name+":")
		if !ok {
			t.Fatalf("no %s of process %d", name, pid)
		}
		return number(t, strings.Fields(rest)[0]) / 1024
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
	everything   = "everything" // that runs on this machine
	stolen       = "stolen"     // by other machines of the same host
)

// processes are all that take part in a measurement.
func (s *stage) processes() map[string]int {
	all := map[string]int{
		etcdCPU: s.plane.Etcd.Pid(), apiServerCPU: s.plane.APIServer.Pid(),
		"controller-manager": s.plane.ControllerManager.Pid(), "driver": os.Getpid(),
	}
	switch {
	case s.measured != nil:
		all[contenderCPU] = s.measured.Pid()
	case s.op != nil:
		all[contenderCPU] = s.op.Pid()
	}
	return all
}

func (s *stage) usage() usage {
	s.Helper()
	u := usage{}
	for name, pid := range s.processes() {
		u[name] = cpu(s, pid)
	}
	// cpu user nice system idle iowait irq softirq
	fields := strings.Fields(strings.SplitN(read(s, "/proc/stat"), "\n", 2)[0])
	for _, i := range []int{1, 2, 3, 6, 7} {
		u[everything] += number(s, fields[i]) / clockTicks
	}
	u[stolen] = stolenSeconds()
	return u
}

// total is what the processes of the measurement used together.
func (u usage) total() float64 {
	sum := 0.0
	for name, seconds := range u {
		if name != everything && name != stolen {
			sum += seconds
		}
	}
	return sum
}

// disturbance is what others used meanwhile: a wall time is worth nothing when it is
// large.
func (u usage) disturbance() float64 { return u[everything] + u[stolen] - u.total() }

func (u usage) since(before usage) usage {
	out := usage{}
	for name, seconds := range u {
		out[name] = seconds - before[name]
	}
	return out
}

// machine says on what this was measured.
func machine(t testing.TB, fsync bool) map[string]string {
	model := "unknown"
	for line := range strings.SplitSeq(read(t, "/proc/cpuinfo"), "\n") {
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
		"etcd": etcd, "kernel": strings.TrimSpace(read(t, "/proc/sys/kernel/osrelease")), "cpu": model,
		"cores": strconv.Itoa(runtime.NumCPU()), "go": runtime.Version(), "memory": memoryOf(t),
		"engines": version(t, "kube-apiserver") + ", " + version(t, "etcd"),
	}
}

// version is what a program of the control plane says it is.
func version(t testing.TB, program string) string {
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

// memoryOf is that of the machine.
func memoryOf(t testing.TB) string {
	t.Helper()
	fields := strings.Fields(read(t, "/proc/meminfo")) // MemTotal: and so many kB
	return fmt.Sprintf("%.0f GiB", number(t, fields[1])/(1<<20))
}

func read(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func number(t testing.TB, text string) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// etcdMB is how large the database of etcd is, without what it could give back.
func (s *stage) etcdMB() float64 {
	s.Helper()
	answer, err := http.Get(s.plane.EtcdURL + "/metrics")
	s.must(err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	s.must(err)
	_, rest, ok := strings.Cut(string(content), "\netcd_mvcc_db_total_size_in_use_in_bytes ")
	if !ok {
		s.Fatal("etcd does not say how large it is")
	}
	return number(s, strings.Fields(rest)[0]) / (1 << 20)
}
