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

	"github.com/holdfast-dev/holdfast/internal/center/sse/sseclient"
	"github.com/holdfast-dev/holdfast/internal/testutil/markdown"
)

// testCenterStream breaks the product, and those who follow the center hear of it at once.
func testCenterStream(t *testing.T, g *WithT, ns string) {
	kubectl(t, "-n", ns, "apply", "-f", root+"/config/samples/cloudmanager.yaml")
	kubectl(t, "-n", ns, "create", "serviceaccount", "viewer")
	kubectl(t, "-n", ns, "create", "rolebinding", "viewer", "--clusterrole=view", "--serviceaccount="+ns+":viewer")
	page := startUI(t, ns)
	const image = "localhost/web:oops"
	var streamedAt atomic.Pointer[time.Time]
	followStream(t, http.DefaultClient, page+"api/v1/stream", "", func(c *sseclient.Client) {
		c.OnUpdate = func() {
			now := time.Now()
			diagnosis := c.Entries()[sseclient.ID{Topic: "applications", Key: "CloudManager/" + ns + "/" + sampleName + "#why"}]
			if strings.Contains(string(diagnosis.Body), image) {
				streamedAt.CompareAndSwap(nil, &now)
			}
		}
	})
	waitCloudManagerReady(t, g, ns)
	patchCloudManager(t, ns, fmt.Sprintf(`{"identity": {"deployment": {"image": %q}}}`, image))
	g.Eventually(func() string { return cloudManagerField(t, ns, `{.status.conditions[?(@.type=="Ready")].message}`) }, "60s", "50ms").Should(ContainSubstring(image))
	statusSeenAt := time.Now() // at most one call of kubectl late
	g.Eventually(streamedAt.Load, "2s", "10ms").ShouldNot(BeNil(), "the stream does not say what the status says")
	t.Logf("the stream said it %.2f s after the operator's status", streamedAt.Load().Sub(statusSeenAt).Seconds())

	testCenterVerb(t, g, ns)
	testReplicaKilled(t, g, ns)
}

// startUI runs kubectl holdfast ui until the test ends, and returns the address that it prints.
func startUI(t *testing.T, ns string) string {
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

// followStream keeps a stream open until the test ends; with sets what else the client does.
func followStream(t *testing.T, httpClient *http.Client, address, token string, configure func(*sseclient.Client)) *sseclient.Client {
	t.Helper()
	c := &sseclient.Client{Clock: clock.RealClock{}, Connect: func(ctx context.Context, lastID string) (*http.Response, error) {
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
		return httpClient.Do(r)
	}}
	configure(c)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// testCenterVerb looks with the plugin: first as somebody who may not, then as one who may.
func testCenterVerb(t *testing.T, g *WithT, ns string) {
	t.Helper()
	out, code := runPlugin(t, ns, "", "center", "--serviceaccount=viewer")
	g.Expect(out).To(ContainSubstring("listing nodes is required to see the state of the center"))
	g.Expect(code).To(Equal(1))
	kubectl(t, "create", "clusterrole", ns, "--verb=list", "--resource=nodes")
	kubectl(t, "create", "clusterrolebinding", ns, "--clusterrole="+ns, "--serviceaccount="+ns+":viewer")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding,clusterrole", ns) })
	kubectl(t, "-n", ns, "create", "serviceaccount", "admin")
	kubectl(t, "create", "clusterrolebinding", ns+"-admin", "--clusterrole="+ns, "--serviceaccount="+ns+":admin")
	t.Cleanup(func() { kubectl(t, "delete", "clusterrolebinding", ns+"-admin") })
	out, code = runPlugin(t, ns, "", "center", "--serviceaccount=admin")
	g.Expect(out).To(MatchRegexp(`cloudmanagers\.apps\.holdfast\.dev +\* +Live`))
	g.Expect(code).To(BeZero(), out)
}

// testReplicaKilled ends one of two replicas while many follow through the Service: all of them see
// soon again what is, also what came meanwhile.
func testReplicaKilled(t *testing.T, g *WithT, ns string) {
	const streamCount, viewerCount, maxDelay = 50, 5, 5 * time.Second // one person has at most 32 streams at a replica
	var tokens []string
	for i := range viewerCount {
		name := fmt.Sprint("viewer-", i)
		kubectl(t, "-n", ns, "create", "serviceaccount", name)
		kubectl(t, "-n", ns, "create", "rolebinding", name, "--clusterrole=view", "--serviceaccount="+ns+":"+name)
		tokens = append(tokens, kubectl(t, "-n", ns, "create", "token", name))
	}
	address := kubectl(t, "-n", "holdfast-system", "get", "service", "holdfast-center", "-o", "jsonpath=https://{.spec.clusterIP}/api/v1/stream")
	kubeletPID := clusterProcess(t, "kubelet")
	var clients []*sseclient.Client
	var disconnects atomic.Int32
	for i := range streamCount {
		// Each with connections of its own, as people come.
		httpClient := &http.Client{Transport: &http.Transport{
			DialContext:     dialInNetns(fmt.Sprintf("/proc/%d/ns/net", kubeletPID)),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the center made it itself
		}}
		clients = append(clients, followStream(t, httpClient, address, tokens[i%viewerCount], func(c *sseclient.Client) { c.OnDisconnect = func(error) { disconnects.Add(1) } }))
	}
	clientsBehind := func(want ...string) func() int {
		return func() int {
			n := 0
			for _, c := range clients {
				entries := c.Entries()
				if slices.ContainsFunc(want, func(key string) bool { return entries[sseclient.ID{Topic: "applications", Key: key}].Body == nil }) {
					n++
				}
			}
			return n
		}
	}
	g.Eventually(clientsBehind("CloudManager/"+ns+"/"+sampleName), "30s", "20ms").Should(BeZero())

	pods := strings.Fields(kubectl(t, "-n", "holdfast-system", "get", "pods", "-l", "app.kubernetes.io/component=center", "-o", "jsonpath={.items[*].metadata.uid}"))
	g.Expect(pods).To(HaveLen(2))
	killProgram(t, pods[0], isHoldfast)
	g.Eventually(disconnects.Load, maxDelay, "1ms").Should(BeNumerically(">", 0), "nobody followed the replica that was killed")
	start := time.Now()
	apply(t, ns, appServiceManifest("late", "localhost/web:1", twoReplicasOnPort80))
	g.Eventually(clientsBehind("CloudManager/"+ns+"/"+sampleName, "AppService/"+ns+"/late"), maxDelay, "20ms").Should(BeZero(), "clients that do not see what is")
	t.Logf("all %d saw what is %.1f s after a replica was killed, with %d cuts", streamCount, time.Since(start).Seconds(), disconnects.Load())
}

// dialInNetns opens connections from another network namespace: that of the node, where the
// addresses of Services are known.
func dialInNetns(namespace string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		runtime.LockOSThread()
		original, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			return nil, err
		}
		defer func() { _ = original.Close() }()
		target, err := os.Open(namespace)
		if err != nil {
			return nil, err
		}
		defer func() { _ = target.Close() }()
		if err := setns(target); err != nil {
			return nil, err
		}
		// A socket is of the namespace that its thread was in when it was made, and stays so.
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if restoreErr := setns(original); restoreErr != nil {
			return nil, restoreErr // the thread stays locked, and ends with its goroutine
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
	requireInstalled(t)
	page, err := markdown.Read(filepath.Join(root, "docs", "user", "center.md"))
	if err != nil {
		t.Fatal(err)
	}
	const separator = "==== next"
	script := "set -eu\ntrap 'kill $(jobs -p)' EXIT\n"
	var steps []step
	for i, block := range page.Blocks {
		if block.Marker != "center" {
			continue
		}
		s := step{Block: block}
		after := block.Line + strings.Count(block.Text, "\n") + 2
		if i+1 < len(page.Blocks) && page.Blocks[i+1].Info == "text" && page.Blocks[i+1].Line == after {
			s.expected = page.Blocks[i+1].Text
		}
		steps = append(steps, s)
		script += block.Text + "\necho; echo '" + separator + "'\n"
	}
	if len(steps) < 9 {
		t.Fatalf("center.md has %d blocks that are marked with <!-- center -->", len(steps))
	}
	out, err := step{Block: markdown.Block{Text: "set +o pipefail\n" + script}}.run(t.Context())
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	outputs := strings.Split(out, separator)
	for i, s := range steps {
		for line := range strings.Lines(s.expected) {
			if i >= len(outputs) || !strings.Contains(outputs[i], strings.TrimSpace(line)) {
				t.Errorf("center.md:%d shows\n  %sThis came:\n%s", s.Line, line, outputs[min(i, len(outputs)-1)])
			}
		}
	}
}
