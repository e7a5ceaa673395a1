// Package build builds the programs and images of a test cluster from pinned Go modules and Debian packages, each once
// per version. Results are cached outside of the repository and shared by all checkouts.
//
// Safety rule: a result gets its final name only when it is complete, so that results of an interrupted build are never
// used.
package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Builder is the configuration of a build.
type Builder struct {
	Source     string // directory of the test/cluster module
	Cache      string
	Kubernetes string // for example 1.36.3; empty means the pinned version
	Out        io.Writer
}

// New returns a Builder for the checkout of the working directory.
func New(kubernetes string, out io.Writer) (*Builder, error) {
	source, err := findSource()
	if err != nil {
		return nil, err
	}
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache directory (set HOLDFAST_CACHE): %w", err)
		}
		cache = filepath.Join(dir, "holdfast")
	}
	return &Builder{Source: source, Cache: cache, Kubernetes: kubernetes, Out: out}, nil
}

func findSource() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		source := filepath.Join(dir, "test", "cluster")
		if _, err := os.Stat(filepath.Join(source, "parts")); err == nil {
			return source, nil
		}
	}
	return "", errors.New("find test/cluster: run this command in a checkout of Holdfast")
}

// buildOnce builds what is missing, with one build at a time in the cache. It checks again after waiting for the lock.
// Existing results are complete and need no lock.
func (b *Builder) buildOnce(missing func() bool, build func() error) error {
	if !missing() {
		return nil
	}
	unlock, err := b.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if !missing() {
		return nil
	}
	if err := b.removeLeftovers(); err != nil {
		return err
	}
	return build()
}

// removeLeftovers removes the files of interrupted builds. The holder of the lock is the only build.
func (b *Builder) removeLeftovers() error {
	left, err := filepath.Glob(filepath.Join(b.Cache, "*", ".*"))
	if err != nil {
		return err
	}
	for _, l := range left {
		err = errors.Join(err, os.RemoveAll(l))
	}
	return err
}

// lock allows one build at a time in the cache.
func (b *Builder) lock() (unlock func(), err error) {
	if err := os.MkdirAll(b.Cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(b.Cache, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		fmt.Fprintf(b.Out, "waiting for another build in %s\n", b.Cache)
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
	return func() { _ = f.Close() }, nil
}

// withProgress runs do and prints progress every few seconds.
func (b *Builder) withProgress(description string, do func() error) error {
	start := time.Now()
	since := func() time.Duration { return time.Since(start).Round(time.Second) }
	fmt.Fprintf(b.Out, "%s\n", description)
	tick := time.NewTicker(20 * time.Second)
	defer tick.Stop()
	done := make(chan error, 1)
	go func() { done <- do() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w", description, err)
			}
			fmt.Fprintf(b.Out, "%s: done in %s\n", description, since())
			return nil
		case <-tick.C:
			fmt.Fprintf(b.Out, "%s: %s so far\n", description, since())
		}
	}
}

// runCommand runs a command in dir. An error contains its output.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// On SIGTERM, mmdebstrap and go remove their temporary files. The command gets its own process group, because
	// mmdebstrap signals its whole group. The parent-death signal is bound to the thread that started it, so the thread
	// is locked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(out))
	}
	return nil
}

func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > 20 {
		lines = lines[len(lines)-20:]
	}
	return strings.Join(lines, "\n")
}

// Key returns a name for a result from its inputs.
func Key(inputs ...string) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:10]
}

// digest returns a key of files and directories, by name and content.
func digest(paths ...string) (string, error) {
	var inputs []string
	for _, root := range paths {
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			inputs = append(inputs, filepath.Base(path), string(content))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return Key(inputs...), nil
}
