// Package build makes the programs and images of a test cluster from pinned Go
// modules and Debian packages, each once per version. Results are kept outside the
// work tree and shared by all checkouts: a second build finds them and returns.
//
// Safety rule: a result appears under its final name only when it is complete, so
// an interrupted build leaves nothing that a later one would trust.
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

// Builder knows where things are made from and kept.
type Builder struct {
	Source     string // folder of the test/cluster module
	Cache      string
	Kubernetes string // version, e.g. 1.36.3; empty means the pinned one
	Out        io.Writer
}

// New returns a Builder for the checkout that the caller stands in.
func New(kubernetes string, out io.Writer) (*Builder, error) {
	source, err := findSource()
	if err != nil {
		return nil, err
	}
	cache := os.Getenv("HOLDFAST_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find the cache folder (set HOLDFAST_CACHE): %w", err)
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
	return "", errors.New("find test/cluster: run this inside a checkout of Holdfast")
}

// buildOnce makes what is missing, one build at a time in the whole cache. Whoever had to
// wait finds it made meanwhile. What is there needs no lock: it is complete.
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

// removeLeftovers removes what interrupted builds have left. Only the holder of the lock builds,
// so nobody is at work on it.
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

// lock lets one build at a time into the cache.
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

// withProgress runs do and says every few seconds that it still does.
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

// runCommand runs a command in dir and returns its output as part of the error.
func runCommand(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	// Asked to end, mmdebstrap and go remove their temporary files. A group of its own,
	// because mmdebstrap then signals its whole group; and it ends with us, whatever
	// ends us. That is the end of the thread that started it, so this one is kept.
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

// Key names a result after what it is made from.
func Key(inputs ...string) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "%d:%s", len(in), in)
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:10]
}

// digest is a key over files and folders, by name and content.
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
