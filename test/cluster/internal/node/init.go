package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Init is pid 1 of the node's namespaces. It arranges the mounts, starts supervise,
// and reaps what others leave behind until supervise ends; then everything ends.
func Init(dir string) error {
	if os.Getpid() != 1 {
		return errors.New("init runs as pid 1 of the node's own namespaces; use up")
	}
	if err := setUpMounts(dir); err != nil {
		return fmt.Errorf("arrange mounts: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "supervise", dirFlag(nodeDataDir))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(progressFD, "progress"), os.NewFile(listenerFD, "listener")}
	if err := cmd.Start(); err != nil {
		return err
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close() // up must see the end of the pipe when supervise dies
	}
	// Not cmd.Wait: this process also gets the orphans of all others, such as the
	// shims of containerd, and must reap them.
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if pid == cmd.Process.Pid {
			return fmt.Errorf("supervise ended with status %d", status.ExitStatus())
		}
	}
}

// setUpMounts cuts the mounts off from the host, then shares them among the node's
// own: kubelet's volumes must reach the containers.
func setUpMounts(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("proc: %w", err)
	}
	if err := mountRun(dir); err != nil {
		return err
	}
	if err := mountVar(); err != nil {
		return fmt.Errorf("/var: %w", err)
	}
	return mountTunables()
}

// mountVar lets the node write to /var without the host noticing: kubelet and CNI have
// places there that no flag moves. What it writes is in the data folder.
func mountVar() error {
	upper, work := filepath.Join(nodeDataDir, "var", "upper"), filepath.Join(nodeDataDir, "var", "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return unix.Mount("overlay", "/var", "overlay", 0, "lowerdir=/var,upperdir="+upper+",workdir="+work)
}

// tunables are settings of the whole machine that kubelet insists on. Not one matters
// to tests, so it sees files that say what it wants to see, and changes nothing.
var tunables = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

func mountTunables() error {
	for name, value := range tunables {
		file := filepath.Join("/run/tunables", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("/proc/sys/%s: %w", name, err)
		}
	}
	return nil
}

// mountRun gives the node a /run of its own, with the data folder in it.
func mountRun(dir string) error {
	// Opened before it may be hidden: the data folder can be below /run.
	data, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("/run: %w", err)
	}
	for _, d := range []string{"/run/netns", "/run/lock", nodeDataDir} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", data.Fd()), nodeDataDir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", nodeDataDir, err)
	}
	return nil
}
