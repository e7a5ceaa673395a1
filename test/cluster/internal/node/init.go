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

// Init is PID 1 of the node's namespaces. It sets up the mounts, starts supervise, and reaps orphans until supervise
// exits.
func Init(dir string) error {
	if os.Getpid() != 1 {
		return errors.New("init must be PID 1 of the node's namespaces; use up")
	}
	if err := setUpMounts(dir); err != nil {
		return fmt.Errorf("set up mounts: %w", err)
	}
	cmd := exec.Command("/proc/self/exe", "supervise", dirFlag(nodeDataDir))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(progressFD, "progress"), os.NewFile(listenerFD, "listener")}
	if err := cmd.Start(); err != nil {
		return err
	}
	for _, f := range cmd.ExtraFiles {
		_ = f.Close() // up must see EOF when supervise exits
	}
	// Not cmd.Wait: this process must also reap orphans, such as the containerd shims.
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
			return fmt.Errorf("supervise exited with status %d", status.ExitStatus())
		}
	}
}

// setUpMounts isolates the mounts from the host and shares them within the node: the kubelet's volume mounts must
// propagate to containers.
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

// mountVar gives the node a private /var in the data directory: the kubelet and CNI have paths there that cannot be
// configured.
func mountVar() error {
	upper, work := filepath.Join(nodeDataDir, "var", "upper"), filepath.Join(nodeDataDir, "var", "work")
	if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
		return err
	}
	return unix.Mount("overlay", "/var", "overlay", 0, "lowerdir=/var,upperdir="+upper+",workdir="+work)
}

// tunables are kernel settings that the kubelet requires. They are irrelevant for tests, so the node gets files with the
// expected values instead of changing the machine.
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

// mountRun gives the node a private /run that contains the data directory.
func mountRun(dir string) error {
	// Open it before the mount hides it: the data directory can be below /run.
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
