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
	"github.com/holdfast-dev/holdfast/internal/center/model"
	"github.com/holdfast-dev/holdfast/internal/center/registry"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
)

// A holder is a process of its own that holds what a cluster has, so that what it needs is its own.
const (
	holdEnv  = "HOLDFAST_TEST_HOLD" // which one to be
	plainEnv = "HOLDFAST_TEST_KUBECONFIG"

	holdCenter  = "center"
	holdWhole   = "dynamicinformer"
	holdTrimmed = "dynamicinformer without managedFields"
)

// held is what a holder says about itself.
type held struct {
	Objects, Maps, Applications int
	// Live is how long after its start it had read everything; zero before.
	Live time.Duration
	// Resident is the memory that it has, Own without the pages of its program, and Peak the most
	// that it ever had.
	Resident, Own, Peak uint64
	// Heap is what is still in use after a collection, and Goroutines how many there are.
	Heap       uint64
	Goroutines int
}

// holder is such a process, seen from the test.
type holder struct {
	*testing.T
	in  io.Writer
	out *bufio.Scanner
}

// hold starts a holder that ends with the test.
func hold(t *testing.T, config *rest.Config, what string, env ...string) *holder {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(controlplane.Kubeconfig(config), file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // it is this program
	cmd.Env = append(append(os.Environ(), holdEnv+"="+what, plainEnv+"="+file), env...)
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
	return &holder{T: t, in: in, out: bufio.NewScanner(out)}
}

// ask sends a word, and reads the answer.
func (h *holder) ask(word string) (answer held) {
	h.Helper()
	if _, err := fmt.Fprintln(h.in, word); err != nil {
		h.Fatal(err)
	}
	if !h.out.Scan() {
		h.Fatalf("the holder ended: %v", h.out.Err())
	}
	if err := json.Unmarshal(h.out.Bytes(), &answer); err != nil {
		h.Fatal(err)
	}
	return answer
}

// settled asks until it holds what it should, and then until its heap is the same as before: what it
// holds may still be looked at.
func (h *holder) settled(enough func(held) bool) (last held) {
	h.Helper()
	eventually(h.T, 3*time.Minute, func() error {
		if now := h.ask("look"); now.Live == 0 || !enough(now) {
			return fmt.Errorf("it holds %+v", now)
		}
		return nil
	})
	eventually(h.T, time.Minute, func() error {
		before := last.Heap
		last = h.ask("collect")
		if change := float64(last.Heap) - float64(before); math.Abs(change) > float64(last.Heap)/200 {
			time.Sleep(time.Second)
			return fmt.Errorf("its heap changed by %.0f bytes", change)
		}
		return nil
	})
	return last
}

// beHolder is the process itself: it answers until nobody asks.
func beHolder(what string) error {
	begun := time.Now()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(plainEnv))
	if err != nil {
		return err
	}
	config.QPS = -1
	start := map[string]func(context.Context, *rest.Config) (func(*held) bool, error){holdCenter: holdCore, holdWhole: holdInformers, holdTrimmed: holdInformers}[what]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	look, err := start(ctx, config)
	if err != nil {
		return err
	}
	live := make(chan time.Duration, 1)
	go func() {
		for !look(&held{}) {
			time.Sleep(10 * time.Millisecond)
		}
		live <- time.Since(begun)
	}()
	var took time.Duration
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		select {
		case took = <-live:
		default:
		}
		word, file, _ := strings.Cut(asked.Text(), " ")
		answer := held{Live: took}
		look(&answer)
		answer.memory()
		switch word {
		case "collect":
			for range 3 { // finalizers, and what they let go
				runtime.GC()
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			answer.Heap, answer.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
		case "profile":
			if err := profile(file); err != nil {
				return err
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
			return err
		}
	}
	return nil
}

func profile(file string) error {
	runtime.GC()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return pprof.Lookup("heap").WriteTo(f, 0)
}

// memory reads what the kernel knows.
func (h *held) memory() {
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
			h.Own = kib << 10
		case "VmHWM":
			h.Peak = kib << 10
		}
	}
}

// holdCore holds with the center.
func holdCore(ctx context.Context, config *rest.Config) (func(*held) bool, error) {
	core, err := center.New(center.Options{Config: config})
	if err != nil {
		return nil, err
	}
	go core.Run(ctx)
	return func(h *held) bool {
		h.Applications = len(core.Model.All())
		for kind, n := range core.Store.Counts() {
			h.Objects += n
			if kind.Kind == "ConfigMap" {
				h.Maps += n
			}
		}
		informers := core.Registry.Informers()
		for _, i := range informers {
			if i.State != registry.Live {
				return false
			}
		}
		return len(informers) > len(model.Kinds())
	}, nil
}

// holdInformers holds with what client-go has.
func holdInformers(ctx context.Context, config *rest.Config) (func(*held) bool, error) {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := dynamicinformer.NewDynamicSharedInformerFactory(c, 0)
	var all []cache.SharedIndexInformer
	for _, k := range append(model.Kinds(), model.ConfigMaps()) {
		i := factory.ForResource(k.GroupVersion().WithResource(k.Resource)).Informer()
		if os.Getenv(holdEnv) == holdTrimmed {
			if err := i.SetTransform(trim); err != nil {
				return nil, err
			}
		}
		all = append(all, i)
	}
	factory.Start(ctx.Done())
	return func(h *held) bool {
		synced := true
		for _, i := range all {
			h.Objects += len(i.GetStore().ListKeys())
			synced = synced && i.HasSynced()
		}
		return synced
	}, nil
}

func trim(obj any) (any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		u.SetManagedFields([]metav1.ManagedFieldsEntry(nil))
	}
	return obj, nil
}
