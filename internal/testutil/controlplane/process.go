package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// Process is a child process with a log file. It can be restarted with the same arguments, so that tests can crash and
// restart components.
type Process struct {
	Name string
	Path string
	Args []string
	Env  []string // added to the environment
	Log  string   // file for stdout and stderr, appended

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start starts the process without waiting until it is ready.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("start %s: already running with pid %d", p.Name, p.cmd.Process.Pid)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.SysProcAttr = diesWithParent()

	started, done := make(chan error, 1), make(chan struct{})
	go func() {
		// The kernel sends the parent-death signal when the forking thread exits, not the process: keep the thread for
		// the lifetime of the child.
		runtime.LockOSThread()
		defer close(done)
		defer func() { _ = log.Close() }()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait() // read only after done is closed
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

// Pid returns the process ID, or 0 if the process is not running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Signal sends sig to the process; os.ErrProcessDone means that it is not running.
func (p *Process) Signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return os.ErrProcessDone
	}
	return p.cmd.Process.Signal(sig)
}

// Exited returns a channel that is closed when the process exits. It is nil, and blocks forever, if the process is not
// running.
func (p *Process) Exited() <-chan struct{} {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// Stop terminates the process and kills it after grace. Stopping a stopped process is not an error.
func (p *Process) Stop(grace time.Duration) error {
	done := p.Exited()
	switch err := p.Signal(syscall.SIGTERM); {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case err != nil:
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	select {
	case <-done:
		return nil
	case <-time.After(grace):
		return p.Kill()
	}
}

// Kill kills the process and waits until it has exited.
func (p *Process) Kill() error {
	done := p.Exited()
	switch err := p.Signal(syscall.SIGKILL); {
	case errors.Is(err, os.ErrProcessDone):
		return nil
	case err != nil:
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-done
	return nil
}

// Failure returns why a process has exited, with the end of its log.
func (p *Process) Failure() error {
	reason := "exit status 0"
	if p.err != nil {
		reason = p.err.Error()
	}
	log, err := os.ReadFile(p.Log)
	if err != nil {
		return fmt.Errorf("%s exited (%s); read its log: %w", p.Name, reason, err)
	}
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	if len(lines) > 8 {
		lines = lines[len(lines)-8:]
	}
	return fmt.Errorf("%s exited (%s); end of %s:\n%s", p.Name, reason, p.Log, bytes.Join(lines, []byte("\n")))
}

func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}
