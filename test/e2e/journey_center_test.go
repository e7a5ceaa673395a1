package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"

	"github.com/holdfast-dev/holdfast/internal/center/hub/stream"
	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
)

// centerTells breaks the product, and those who follow the center hear of it at once.
func centerTells(t *testing.T, g *WithT, ns string) {
	kubectl(t, "-n", ns, "apply", "-f", root+"/config/samples/cloudmanager.yaml")
	kubectl(t, "-n", ns, "create", "serviceaccount", "viewer")
	kubectl(t, "-n", ns, "create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount="+ns+":viewer")
	page := openPage(t, ns)
	const image = "localhost/web:oops"
	var said atomic.Pointer[time.Time]
	follow(t, http.DefaultClient, page+"api/v1/stream", "", func(c *stream.Client) {
		c.Updated = func() {
			now := time.Now()
			why := c.Entries()[stream.ID{Topic: "applications", Key: "CloudManager/" + ns + "/" + sample + "#why"}]
			if strings.Contains(string(why.Body), image) {
				said.CompareAndSwap(nil, &now)
			}
		}
	})
	waitCloudManager(t, g, ns)
	patch(t, ns, fmt.Sprintf(`{"identity": {"deployment": {"image": %q}}}`, image))
	g.Eventually(func() string { return cloudManager(t, ns, `{.status.conditions[?(@.type=="Ready")].message}`) }, "60s", "50ms").Should(ContainSubstring(image))
	status := time.Now() // at most one call of kubectl late
	g.Eventually(said.Load, "2s", "10ms").ShouldNot(BeNil(), "the stream does not say what the status says")
	t.Logf("the stream said it %.2f s after the operator's status", said.Load().Sub(status).Seconds())

	expectEngine(t, g, ns)
	replicaKilled(t, g, ns)
}

// openPage runs kubectl holdfast ui until the test ends, and returns the address that it prints.
func openPage(t *testing.T, ns string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "kubectl-holdfast"), "ui", "-n", ns, "--serviceaccount=viewer")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := os.Create(filepath.Join(t.TempDir(), "ui"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "context canceled") {
			t.Errorf("kubectl holdfast ui ended with %v", err)
		}
		_ = out.Close()
	})
	var address string
	NewWithT(t).Eventually(func() string {
		content, _ := os.ReadFile(out.Name())
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(string(content))
		return string(content)
	}, "20s", "50ms").Should(ContainSubstring("End with Ctrl-C"))
	return address
}

// follow keeps a stream open until the test ends; with sets what else the client does.
func follow(t *testing.T, by *http.Client, address, token string, with func(*stream.Client)) *stream.Client {
	t.Helper()
	c := &stream.Client{Clock: clock.RealClock{}, Get: func(ctx context.Context, lastID string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return nil, err
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if lastID != "" {
			r.Header.Set("Last-Event-ID", lastID)
		}
		return by.Do(r)
	}}
	with(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// expectEngine looks with the plugin: first as somebody who may not, then as one who may.
func expectEngine(t *testing.T, g *WithT, ns string) {
	t.Helper()
	out, code := plugin(t, ns, "", "engine", "--serviceaccount=viewer")
	g.Expect(out).To(ContainSubstring("the engine is shown to those who may list nodes"))
	g.Expect(code).To(Equal(1))
	kubectl(t, "create", "clusterrole", ns, "--verb=list", "--resource=nodes")
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole="+ns, "--serviceaccount="+ns+":viewer")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding,clusterrole", ns) })
	kubectl(t, "-n", ns, "create", "serviceaccount", "admin")
	kubectl(t, "create", "clusterrolebinding", ns+"-admin", "--clusterrole="+ns, "--serviceaccount="+ns+":admin")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", ns+"-admin") })
	out, code = plugin(t, ns, "", "engine", "--serviceaccount=admin")
	g.Expect(out).To(MatchRegexp(`cloudmanagers\.apps\.holdfast\.dev +\* +Live`))
	g.Expect(code).To(BeZero(), out)
}

// replicaKilled ends one of two replicas while many follow through the Service: all of them see
// soon again what is, also what came meanwhile.
func replicaKilled(t *testing.T, g *WithT, ns string) {
	const many, people, soon = 50, 5, 5 * time.Second // one person has at most 32 streams at a replica
	var tokens []string
	for i := range people {
		name := fmt.Sprint("viewer-", i)
		kubectl(t, "-n", ns, "create", "serviceaccount", name)
		kubectl(t, "-n", ns, "create", "rolebinding", name, "--clusterrole=view", "--serviceaccount="+ns+":"+name)
		tokens = append(tokens, kubectl(t, "-n", ns, "create", "token", name))
	}
	address := kubectl(t, "-n", "holdfast-system", "get", "service", "holdfast-center", "-o", "jsonpath=https://{.spec.clusterIP}/api/v1/stream")
	inside := process(t, "kubelet")
	var clients []*stream.Client
	var cuts atomic.Int32
	for i := range many {
		// Each with connections of its own, as people come.
		by := &http.Client{Transport: &http.Transport{
			DialContext:     dialFrom(fmt.Sprintf("/proc/%d/ns/net", inside)),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the center made it itself
		}}
		clients = append(clients, follow(t, by, address, tokens[i%people], func(c *stream.Client) { c.Down = func(error) { cuts.Add(1) } }))
	}
	behind := func(want ...string) func() int {
		return func() int {
			n := 0
			for _, c := range clients {
				entries := c.Entries()
				if slices.ContainsFunc(want, func(key string) bool { return entries[stream.ID{Topic: "applications", Key: key}].Body == nil }) {
					n++
				}
			}
			return n
		}
	}
	g.Eventually(behind("CloudManager/"+ns+"/"+sample), "30s", "20ms").Should(BeZero())

	pods := strings.Fields(kubectl(t, "-n", "holdfast-system", "get", "pods", "-l", "app.kubernetes.io/component=center", "-o", "jsonpath={.items[*].metadata.uid}"))
	g.Expect(pods).To(HaveLen(2))
	crash(t, pods[0], ours)
	g.Eventually(cuts.Load, soon, "1ms").Should(BeNumerically(">", 0), "nobody followed the replica that was killed")
	start := time.Now()
	apply(t, ns, service("late", "localhost/web:1", port80))
	g.Eventually(behind("CloudManager/"+ns+"/"+sample, "AppService/"+ns+"/late"), soon, "20ms").Should(BeZero(), "clients that do not see what is")
	t.Logf("all %d saw what is %.1f s after a replica was killed, with %d cuts", many, time.Since(start).Seconds(), cuts.Load())
}

// dialFrom opens connections from another network namespace: that of the node, where the
// addresses of Services are known.
func dialFrom(namespace string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		runtime.LockOSThread()
		here, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return nil, err
		}
		defer func() { _ = here.Close() }()
		there, err := os.Open(namespace)
		if err != nil {
			return nil, err
		}
		defer func() { _ = there.Close() }()
		if err := setns(there); err != nil {
			return nil, err
		}
		// A socket is of the namespace that its thread was in when it was made, and stays so.
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if back := setns(here); back != nil {
			return nil, back // the thread stays locked, and ends with its goroutine
		}
		runtime.UnlockOSThread()
		return conn, err
	}
}

func setns(file *os.File) error {
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", file.Name(), err)
	}
	return nil
}

// TestCenterPage does what docs/user/center.md says, word by word, in one shell.
func TestCenterPage(t *testing.T) {
	installed(t)
	page, err := markdown.Read(filepath.Join(root, "docs", "user", "center.md"))
	if err != nil {
		t.Fatal(err)
	}
	const next = "==== next"
	script := "set -eu\ntrap 'kill $(jobs -p)' EXIT\n"
	var steps []step
	for i, block := range page.Blocks {
		if block.Mark != "center" {
			continue
		}
		s := step{Block: block}
		after := block.Line + strings.Count(block.Text, "\n") + 2
		if i+1 < len(page.Blocks) && page.Blocks[i+1].Info == "text" && page.Blocks[i+1].Line == after {
			s.shows = page.Blocks[i+1].Text
		}
		steps = append(steps, s)
		script += block.Text + "\necho; echo '" + next + "'\n"
	}
	if len(steps) < 9 {
		t.Fatalf("center.md has %d blocks that are marked with <!-- center -->", len(steps))
	}
	out, err := step{Block: markdown.Block{Text: "set +o pipefail\n" + script}}.run(t.Context())
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	said := strings.Split(out, next)
	for i, s := range steps {
		for line := range strings.Lines(s.shows) {
			if i >= len(said) || !strings.Contains(said[i], strings.TrimSpace(line)) {
				t.Errorf("center.md:%d shows\n  %sThis came:\n%s", s.Line, line, said[min(i, len(said)-1)])
			}
		}
	}
}
