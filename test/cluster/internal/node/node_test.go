package node

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

func TestFollowProgress(t *testing.T) {
	cases := map[string]struct {
		input     string
		wantOut   string
		wantErr   string
		wantReady bool
	}{
		"ready":                         {input: "  1.0 s  control plane ready\nready\n", wantOut: "  1.0 s  control plane ready\n", wantReady: true},
		"an error":                      {input: "  1.0 s  a\nerror: etcd exited\nlast line of its log\n", wantOut: "  1.0 s  a\n", wantErr: "etcd exited\nlast line of its log"},
		"an unexpected exit":            {input: "  1.0 s  a\n", wantOut: "  1.0 s  a\n", wantErr: "exited during startup"},
		"no output":                     {wantErr: "exited during startup"},
		"a line that starts with ready": {input: "ready or not\nready\n", wantOut: "ready or not\n", wantReady: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := followProgress(strings.NewReader(tc.input), &out)
			if tc.wantReady != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got error %v, want %q", err, tc.wantErr)
			}
			if out.String() != tc.wantOut {
				t.Errorf("got output %q, want %q", out.String(), tc.wantOut)
			}
		})
	}
}

// The address of the bridge must not change when pods are created or deleted, because all pods have it cached.
func TestBridgeKeepsItsAddress(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creating a network namespace needs root")
	}
	runtime.LockOSThread() // the thread exits with the test, so that the namespace is not reused
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		t.Skipf("create a network namespace: %v", err)
	}
	if err := setUpNetwork(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		for _, args := range []string{"link add pod%d type veth peer name in%d", "link set pod%d master " + bridge + " up"} {
			args = strings.ReplaceAll(args, "%d", strconv.Itoa(i))
			if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
				t.Fatalf("ip %s: %v: %s", args, err, out)
			}
		}
		out, err := exec.CommandContext(t.Context(), "ip", "link", "show", bridge).CombinedOutput()
		if err != nil || !strings.Contains(string(out), bridgeMAC) {
			t.Fatalf("after %d pods: %v: %s", i+1, err, out)
		}
	}
}

func TestDownKeepsForeignFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := removeDataDir(dir); err == nil || !strings.Contains(err.Error(), "not the data directory of a cluster") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

func TestOneClusterPerFolder(t *testing.T) {
	c := Config{Dir: filepath.Join(t.TempDir(), "data")}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	if err := c.save(); err == nil || !strings.Contains(err.Error(), "run down first") {
		t.Errorf("second cluster: got %v, want an error", err)
	}
	if err := removeDataDir(c.Dir); err != nil {
		t.Fatal(err)
	}
	if err := c.save(); err != nil {
		t.Errorf("after removal: %v", err)
	}
}

func TestConfigLoadsFromNodePath(t *testing.T) {
	dir := t.TempDir()
	c := Config{Dir: dir, Level: build.Node, Port: 7}
	if err := c.save(); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "inside")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	got, err := readConfig(link)
	if err != nil {
		t.Fatal(err)
	}
	if got.Dir != link || got.hostDir() != dir || got.Port != 7 {
		t.Errorf("got %+v", got)
	}
	if got.cgroup() != c.cgroup() {
		t.Error("the cgroup name differs, so that down would not find the cgroups")
	}
}

func TestFindIgnoresOtherProcesses(t *testing.T) {
	dir := t.TempDir()
	// Another process with the directory in its arguments, such as an editor.
	script := filepath.Join(t.TempDir(), "cluster")
	if err := os.WriteFile(script, []byte("read forever\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{script, script, dirFlag(dir)}}
	stdin, err := cmd.StdinPipe() // keeps it waiting
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close(); _ = cmd.Wait() })
	if got, err := findClusterProcesses(dir); err != nil || len(got) != 0 {
		t.Errorf("got processes %v, %v, want none", got, err)
	}
	children, err := descendants(os.Getpid())
	if err != nil || !slices.Contains(children, cmd.Process.Pid) {
		t.Errorf("got descendants %v, %v, want the child %d", children, err, cmd.Process.Pid)
	}
	if children, err = descendants(cmd.Process.Pid); err != nil || !slices.Equal(children, []int{cmd.Process.Pid}) {
		t.Errorf("process without children: got descendants %v, %v", children, err)
	}
}

func TestTemplatesRender(t *testing.T) {
	s := &supervisor{Config: Config{Dir: t.TempDir(), Assets: "/assets"}}
	for name, text := range map[string]string{"kubelet.yaml": kubeletConfig, "addons.yaml": addons, "cni.conflist": cniConfig} {
		if err := s.render(name, text); err != nil {
			t.Error(err)
			continue
		}
		content, err := os.ReadFile(s.path(name))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(content), "\n---\n") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(doc), &object); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := s.render("x", "{{.Nothing}}"); err == nil {
		t.Error("an unknown field must be an error")
	}
}

// TestForward checks both directions and half-closed connections, which exec and port-forward need.
func TestForward(t *testing.T) {
	server, front := listenLocal(t), listenLocal(t)
	go forward(front, server.Addr().String())
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		got, _ := io.ReadAll(conn) // until the client has closed its direction
		_, _ = conn.Write(append([]byte("echo "), got...))
	}()
	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Write([]byte("hello"))
	if err := errors.Join(err, conn.(*net.TCPConn).CloseWrite()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "echo hello" {
		t.Errorf("got %q, %v", got, err)
	}
}

func listenLocal(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}
