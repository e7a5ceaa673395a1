package center

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/center"
	"github.com/holdfast-dev/holdfast/internal/center/informers"
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// A probe is a separate process that stores the objects of the cluster, so that its memory can be measured.
const (
	probeEnv      = "HOLDFAST_TEST_HOLD" // the name of the probe
	kubeconfigEnv = "HOLDFAST_TEST_KUBECONFIG"

	probeCenter           = "center"
	probeInformers        = "dynamicinformer"
	probeTrimmedInformers = "dynamicinformer without managedFields"
)

// memoryReport is the report of a probe.
type memoryReport struct {
	Objects, ConfigMaps, Applications int
	// SyncTime is the time from the start until all objects were read; zero before.
	SyncTime time.Duration
	// Resident is the resident memory, Anonymous the resident memory without file-backed pages, and Peak the
	// maximum of Resident.
	Resident, Anonymous, Peak uint64
	// Heap is the live heap after a collection. Goroutines is the number of goroutines.
	Heap       uint64
	Goroutines int
}

// memoryProbe controls a probe from the test.
type memoryProbe struct {
	*testing.T
	in  io.Writer
	out *bufio.Scanner
}

// startProbe starts a probe that ends with the test.
func startProbe(t *testing.T, config *rest.Config, target string, env ...string) *memoryProbe {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // runs this test binary
	cmd.Env = append(append(os.Environ(), probeEnv+"="+target, kubeconfigEnv+"="+file), env...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	return &memoryProbe{T: t, in: in, out: bufio.NewScanner(out)}
}

// query sends a command and reads the response.
func (h *memoryProbe) query(command string) (answer memoryReport) {
	h.Helper()
	if _, err := fmt.Fprintln(h.in, command); err != nil {
		h.Fatal(err)
	}
	if !h.out.Scan() {
		h.Fatalf("the probe ended: %v", h.out.Err())
	}
	if err := json.Unmarshal(h.out.Bytes(), &answer); err != nil {
		h.Fatal(err)
	}
	return answer
}

// waitStable waits until the probe has all objects, and then until its heap is stable, because it may still be
// processing them.
func (h *memoryProbe) waitStable(enough func(memoryReport) bool) (last memoryReport) {
	h.Helper()
	eventually(h.T, 3*time.Minute, func() error {
		if now := h.query("look"); now.SyncTime == 0 || !enough(now) {
			return fmt.Errorf("got %+v", now)
		}
		return nil
	})
	eventually(h.T, time.Minute, func() error {
		before := last.Heap
		last = h.query("collect")
		if change := float64(last.Heap) - float64(before); math.Abs(change) > float64(last.Heap)/200 {
			time.Sleep(time.Second) // the collector frees memory in the background
			return fmt.Errorf("the heap changed by %.0f bytes", change)
		}
		return nil
	})
	return last
}

// runProbe runs the probe: it responds until its input is closed.
func runProbe(target string) error {
	started := time.Now()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(kubeconfigEnv))
	if err != nil {
		return err
	}
	config.QPS = -1
	start := map[string]func(context.Context, *rest.Config) (func(*memoryReport) bool, error){probeCenter: startCenterProbe, probeInformers: startInformerProbe, probeTrimmedInformers: startInformerProbe}[target]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	fill, err := start(ctx, config)
	if err != nil {
		return err
	}
	live := make(chan time.Duration, 1)
	go func() {
		for !fill(&memoryReport{}) {
			time.Sleep(10 * time.Millisecond) // poll interval
		}
		live <- time.Since(started)
	}()
	var took time.Duration
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		select {
		case took = <-live:
		default:
		}
		command, file, _ := strings.Cut(commands.Text(), " ")
		report := memoryReport{SyncTime: took}
		fill(&report)
		report.readProcStatus()
		switch command {
		case "collect":
			for range 3 { // finalizers release more objects
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			report.Heap, report.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
		case "profile":
			if err := writeHeapProfile(file); err != nil {
				return err
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
			return err
		}
	}
	return nil
}

func writeHeapProfile(file string) error {
	runtime.GC()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// readProcStatus reads /proc/self/status.
func (h *memoryReport) readProcStatus() {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return // not Linux
	}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(line, ":")
		kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			h.Resident = kib << 10
		case "RssAnon":
			h.Anonymous = kib << 10
		case "VmHWM":
			h.Peak = kib << 10
		}
	}
}

// startCenterProbe stores the objects with the center.
func startCenterProbe(ctx context.Context, config *rest.Config) (func(*memoryReport) bool, error) {
	core, err := center.New(center.Options{Config: config})
	if err != nil {
		return nil, err
	}
	go core.Run(ctx)
	return func(h *memoryReport) bool {
		h.Applications = len(core.Model.All())
		for kind, n := range core.Store.Counts() {
			h.Objects += n
			if kind.Kind == "ConfigMap" {
				h.ConfigMaps += n
			}
		}
		statuses := core.Registry.Informers()
		for _, i := range statuses {
			if i.State != informers.Live {
				return false
			}
		}
		return len(statuses) > len(model.DefaultKinds())
	}, nil
}

// startInformerProbe stores the objects with client-go informers.
func startInformerProbe(ctx context.Context, config *rest.Config) (func(*memoryReport) bool, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	var all []cache.SharedIndexInformer
	for _, k := range append(model.DefaultKinds(), model.ConfigMapKind()) {
		i := factory.ForResource(k.GroupVersion().WithResource(k.Resource)).Informer()
		if os.Getenv(probeEnv) == probeTrimmedInformers {
			if err := i.SetTransform(dropManagedFields); err != nil {
				return nil, err
			}
		}
		all = append(all, i)
	}
	factory.Start(ctx.Done())
	return func(h *memoryReport) bool {
		synced := true
		for _, i := range all {
			h.Objects += len(i.GetStore().ListKeys())
			synced = synced && i.HasSynced()
		}
		return synced
	}, nil
}

func dropManagedFields(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields([]metav1.ManagedFieldsEntry(nil))
	}
	return obj, nil
}
