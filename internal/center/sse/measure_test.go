package sse_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/sse"
)

// Measurements over real connections: SSE_FIGURES=1 go test -run Figures -v. Readers run in another process, so
// that the CPU time of this process is the CPU time of the hub.
const readersEnv, figuresEnv = "SSE_READERS", "SSE_FIGURES"

func TestMain(m *testing.M) {
	if spec := os.Getenv(readersEnv); spec != "" {
		runReaders(spec)
		return
	}
	os.Exit(m.Run())
}

// readerReport is the result of the readers, written when their input is closed.
type readerReport struct {
	Frames   int64
	P50, P99 time.Duration
	Max      time.Duration
}

// runReaders connects clients that only search for timestamps in the received data.
func runReaders(spec string) {
	addr, count, _ := strings.Cut(spec, " ")
	n, err := strconv.Atoi(count)
	if err != nil {
		panic(err)
	}
	var mu sync.Mutex
	var all []time.Duration
	var frames atomic.Int64
	var ready sync.WaitGroup
	ready.Add(n)
	for range n {
		go func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(c, "GET /?topic=a HTTP/1.1\r\nHost: center\r\n\r\n")
			var latencies []time.Duration
			first := true
			for b := make([]byte, 64<<10); ; {
				k, err := c.Read(b)
				now := time.Now().UnixNano()
				if err != nil {
					mu.Lock()
					all = append(all, latencies...)
					mu.Unlock()
					return
				}
				if first && bytes.Contains(b[:k], []byte("snapshot")) {
					first = false
					ready.Done()
				}
				for rest := b[:k]; ; {
					i := bytes.Index(rest, []byte(`"at":`))
					if i < 0 || i+24 > len(rest) {
						break
					}
					at, err := strconv.ParseInt(string(rest[i+5:i+24]), 10, 64)
					rest = rest[i+24:]
					if err == nil {
						frames.Add(1)
						latencies = append(latencies, time.Duration(now-at))
						if len(latencies) == 10000 {
							latencies = latencies[:0]
						}
					}
				}
			}
		}()
	}
	ready.Wait()
	fmt.Println("ready")
	// The test closes the input when it has received enough, and the hub then ends the streams.
	_, _ = io.ReadAll(os.Stdin)
	time.Sleep(time.Second) // time for the last frames to arrive
	mu.Lock()
	slices.Sort(all)
	h := readerReport{Frames: frames.Load()}
	if k := len(all); k > 0 {
		h.P50, h.P99, h.Max = all[k/2], all[k*99/100], all[k-1]
	}
	_ = json.NewEncoder(os.Stdout).Encode(h)
}

type readerProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func (r *harness) startReaders(n int) *readerProcess {
	r.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", readersEnv, r.server.Listener.Addr(), n))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmd.Start(); err1 != nil || err2 != nil || err != nil {
		r.t.Fatal(err1, err2, err)
	}
	rs := &readerProcess{t: r.t, cmd: cmd, in: in, out: out}
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		r.t.Fatalf("readers: %v", err)
	}
	return rs
}

func (rs *readerProcess) finish(stop func()) readerReport {
	rs.t.Helper()
	_ = rs.in.Close()
	stop()
	var h readerReport
	if err := json.NewDecoder(rs.out).Decode(&h); err != nil {
		rs.t.Fatal(err)
	}
	_ = rs.cmd.Wait()
	return h
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// timedBody is a body of about 1 kB with a timestamp, similar to an application in a list.
type timedBody struct {
	At  int64  `json:"at"`
	Pad string `json:"pad"`
}

func publishTimed(r *harness, i int) {
	_ = r.hub.Publish(entry("a", "x", strconv.Itoa(i%1000), timedBody{time.Now().UnixNano(), pad1k}))
}

var pad1k = strings.Repeat("x", 900)

func figuresHarness(t *testing.T, o sse.Options) *harness {
	if os.Getenv(figuresEnv) == "" {
		t.Skip("set " + figuresEnv + "=1")
	}
	o.MaxClientsPerUser, o.MaxClientsPerTenant = 10000, 10000
	r := newHarness(t, clock.RealClock{}, o)
	r.server.Start()
	return r
}

func TestFiguresLatency(t *testing.T) {
	for _, tc := range []struct{ clients, stuck int }{{1, 0}, {100, 0}, {1000, 0}, {100, 10}} {
		t.Run(fmt.Sprintf("%d clients, %d stuck", tc.clients, tc.stuck), func(t *testing.T) {
			r := figuresHarness(t, sse.Options{WriteTimeout: time.Minute})
			for range tc.stuck {
				r.dialStuck("topic=a")
			}
			eventually(t, "stuck clients to connect", func() bool { return r.hub.Stats().Snapshots == uint64(tc.stuck) })
			// Clients are stuck only after the kernel buffers are full.
			for i := 0; tc.stuck > 0 && r.hub.Stats().Coalesced < uint64(40*tc.stuck); i++ {
				_ = r.hub.Publish(entry("a", "x", "fill", fmt.Sprint(i, strings.Repeat(pad1k, 100))))
				time.Sleep(time.Millisecond) // pace
			}
			encodes := r.hub.Stats().Encodes
			rs := r.startReaders(tc.clients)
			const rate, seconds = 50, 4
			used := cpuTime()
			tick := time.NewTicker(time.Second / rate)
			for i := range rate * seconds {
				<-tick.C
				publishTimed(r, i)
			}
			tick.Stop()
			time.Sleep(500 * time.Millisecond) // time for the last frames to be written
			used = cpuTime() - used
			s := r.hub.Stats()
			s.Encodes -= encodes
			h := rs.finish(r.stopWithoutWaiting())
			t.Logf("write to frame p50 %v, p99 %v, max %v; frames received %d of %d; encodes per event %.2f; %d deliveries in %d writes, %d coalesced; cpu %.1f %% of a core",
				h.P50, h.P99, h.Max, h.Frames, tc.clients*rate*seconds, float64(s.Encodes)/(rate*seconds),
				s.Deliveries, s.Writes, s.Coalesced, 100*used.Seconds()/(seconds+0.5))
			if s.Encodes != rate*seconds {
				t.Errorf("want %d encodes, got %d", rate*seconds, s.Encodes)
			}
		})
	}
}

// stopWithoutWaiting stops the hub without waiting for stuck clients.
func (r *harness) stopWithoutWaiting() func() {
	return func() { r.server.CloseClientConnections(); r.stop() }
}

func TestFiguresSaturation(t *testing.T) {
	r := figuresHarness(t, sse.Options{WriteTimeout: time.Minute})
	rs := r.startReaders(100)
	used, from := cpuTime(), time.Now()
	for i := 0; time.Since(from) < 4*time.Second; i++ {
		publishTimed(r, i)
		if i%20 == 0 {
			// A higher rate would only coalesce more frames or close all clients.
			runtime.Gosched()
			time.Sleep(time.Millisecond)
		}
	}
	used, took := cpuTime()-used, time.Since(from)
	s := r.hub.Stats()
	rs.finish(r.stopWithoutWaiting())
	t.Logf("%d events, %d deliveries in %v: %.0f/s; %.0f per second and core (used %v); %.1f frames a write; coalesced %d, closed slow %d",
		s.Frames, s.Deliveries, took.Round(time.Millisecond), float64(s.Deliveries)/took.Seconds(), float64(s.Deliveries)/used.Seconds(),
		used, float64(s.Deliveries)/float64(s.Writes), s.Coalesced, s.ClosedSlow)
}

func TestFiguresMemory(t *testing.T) {
	r := figuresHarness(t, sse.Options{WriteTimeout: time.Minute})
	for i := range 100 {
		r.src.set(entry("a", "x", strconv.Itoa(i), timedBody{1, pad1k}))
	}
	warm := r.startReaders(10)
	memory := func() (heap, stack uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc, m.StackInuse
	}
	heap, stack := memory()
	rs := r.startReaders(1000)
	heap1, stack1 := memory()
	t.Logf("per idle client, net/http included: heap %.1f kB, stacks %.1f kB; at most %d kB more for a stuck client",
		float64(heap1-heap)/1e6, float64(stack1-stack)/1e6, sse.MaxClientBytes>>10)
	_ = warm.in.Close()
	rs.finish(r.stopWithoutWaiting())
	_ = warm.cmd.Wait()
}
