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

// testCenterStream breaks the application and expects the change in the event stream at once.
func testCenterStream(t *testing.T, g *WithT, ns string) {
	applySample(t, ns)
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
	statusSeenAt := time.Now() // at most one kubectl call late
	g.Eventually(streamedAt.Load, "2s", "10ms").ShouldNot(BeNil(), "the stream does not report the status change")
	t.Logf("the stream reported the change %.2f s after the status", streamedAt.Load().Sub(statusSeenAt).Seconds())

	testCenterVerb(t, g, ns)
	testReplicaKilled(t, g, ns)
}

// startUI runs kubectl holdfast ui until the test ends and returns the printed address.
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
			t.Errorf("kubectl holdfast ui exited with %v", err)
		}
		_ = out.Close()
	})
	var address string
	NewWithT(t).Eventually(func() string {
		content, _ := os.ReadFile(out.Name())
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\w+/`).FindString(string(content))
		return string(content)
	}, "20s", "50ms").Should(ContainSubstring("Press Ctrl-C to stop"))
	return address
}

// followStream keeps a stream open until the test ends; configure changes the client.
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

// testCenterVerb runs kubectl holdfast center without and with the required permission.
func testCenterVerb(t *testing.T, g *WithT, ns string) {
	t.Helper()
	out, code := runPlugin(t, ns, "", "center", "--serviceaccount=viewer")
	g.Expect(out).To(ContainSubstring("permission to list nodes is required to see the state of the center"))
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

// testReplicaKilled kills one of two replicas while many clients stream through the Service. All clients must soon be up
// to date again.
func testReplicaKilled(t *testing.T, g *WithT, ns string) {
	const streamCount, viewerCount, maxDelay = 50, 5, 5 * time.Second // a user has at most 32 streams per replica
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
		// Separate connections, as for separate users.
		httpClient := &http.Client{Transport: &http.Transport{
			DialContext:     dialInNetns(fmt.Sprintf("/proc/%d/ns/net", kubeletPID)),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the center signs its own certificate
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
	g.Eventually(disconnects.Load, maxDelay, "1ms").Should(BeNumerically(">", 0), "no client was connected to the killed replica")
	start := time.Now()
	apply(t, ns, appServiceManifest("late", "localhost/web:1", twoReplicasOnPort80))
	g.Eventually(clientsBehind("CloudManager/"+ns+"/"+sampleName, "AppService/"+ns+"/late"), maxDelay, "20ms").Should(BeZero(), "clients that are not up to date")
	t.Logf("all %d clients were up to date %.1f s after a replica was killed, with %d disconnects", streamCount, time.Since(start).Seconds(), disconnects.Load())
}

// dialInNetns dials from the network namespace of the node, in which Service addresses are routable.
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
		// A socket stays in the network namespace in which its thread created it.
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if restoreErr := setns(original); restoreErr != nil {
			return nil, restoreErr // the thread stays locked and exits with its goroutine
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

// TestCenterPage runs the commands of docs/user/center.md in one shell.
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
				t.Errorf("center.md:%d: want line\n  %sgot output:\n%s", s.Line, line, outputs[min(i, len(outputs)-1)])
			}
		}
	}
}
