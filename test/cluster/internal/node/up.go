package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

// Messages from supervise to up on the progress pipe.
const (
	progressReady = "ready"
	progressError = "error: "
)

// File descriptors passed from up through init to supervise.
const (
	progressFD = 3
	listenerFD = 4
)

// Up starts the cluster in the background, prints progress to out, and returns when it is ready.
func Up(ctx context.Context, c Config, out io.Writer) error {
	pids, err := findClusterProcesses(c.Dir)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("a cluster is already running in %s (PID %d): use it with KUBECONFIG=%s, or run down first", c.Dir, pids[0], c.Kubeconfig())
	}
	if err := c.save(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.path("log"), 0o755); err != nil {
		return err
	}
	cmd, progress, err := startDetached(c)
	if err != nil {
		return errors.Join(err, Down(c.Dir, io.Discard))
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer stop()
	if err := followProgress(progress, out); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return fmt.Errorf("%w\nsee the logs in %s; run down before the next attempt", err, c.path("log"))
	}
	return cmd.Process.Release()
}

// startDetached runs init or supervise with a pipe for progress. The process keeps running when this command exits.
func startDetached(c Config) (*exec.Cmd, io.Reader, error) {
	log, err := os.OpenFile(c.path("log/supervise.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = log.Close() }()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = w.Close() }()
	verb, files := "supervise", []*os.File{w}
	attr := &syscall.SysProcAttr{Setsid: true}
	if c.Level == build.Node {
		verb = "init"
		attr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID
		// A socket stays in the network namespace in which it was created: accepting on this one from inside the node
		// serves the host. The host needs no address, route or rule to reach the API server.
		listener, err := listen(c.Port)
		if err != nil {
			return nil, nil, err
		}
		defer func() { _ = listener.Close() }()
		files = append(files, listener)
	}
	cmd := exec.Command("/proc/self/exe", verb, dirFlag(c.Dir))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = files
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("start %s: %w", verb, err)
	}
	return cmd, r, nil
}

func listen(port int) (*os.File, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return nil, fmt.Errorf("listen on the port of the API server: %w (choose another port)", err)
	}
	defer func() { _ = l.Close() }()
	return l.File()
}

// followProgress prints the progress of supervise until the cluster is ready or has failed.
func followProgress(progress io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(progress)
	var failure []string
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == progressReady:
			return nil
		case len(failure) > 0:
			failure = append(failure, line)
		case strings.HasPrefix(line, progressError):
			failure = append(failure, strings.TrimPrefix(line, progressError))
		default:
			fmt.Fprintln(out, line)
		}
	}
	if len(failure) > 0 {
		return errors.New(strings.Join(failure, "\n"))
	}
	return errors.New("the cluster exited during startup")
}

func dirFlag(dir string) string { return "--dir=" + dir }
