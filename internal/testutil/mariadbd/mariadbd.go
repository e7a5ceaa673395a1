// Package mariadbd runs real MariaDB servers for tests, of the same images that pods of the test
// cluster run, without a node: in a folder of their own, at an address of their own.
package mariadbd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/mariadb"
	"github.com/holdfast-dev/holdfast/internal/mariadb/session"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// Versions are those that there are images of.
var Versions = []string{"10.11", "11.8"}

// startTimeout is how long the first start may take: it makes the system tables.
const startTimeout = 90 * time.Second

// Server is a server that a test may do anything to.
type Server struct {
	t       testing.TB
	version string
	root    string
	data    string
	args    []string

	// Address is its own: ports are as in a pod.
	Address string
	// RootPassword opened it first.
	RootPassword string
	cmd          *exec.Cmd
	exited       chan struct{}
}

var rootfsByVersion sync.Map // version -> func() (string, error)

// rootfs is where an image is unpacked.
func rootfs(version string) (string, error) {
	once, _ := rootfsByVersion.LoadOrStore(version, sync.OnceValues(func() (string, error) {
		repoRoot, err := operator.RepoRoot()
		if err != nil {
			return "", err
		}
		cmd := exec.Command(filepath.Join(repoRoot, "bin", "cluster"), "rootfs", "--name=mariadb:"+version)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("unpack mariadb:%s: %w; make images builds it", version, err)
		}
		return strings.TrimSpace(string(out)), nil
	}))
	return once.(func() (string, error))()
}

var serverCount atomic.Uint32

// New makes a server that is not started. args are further ones of mariadbd.
func New(t testing.TB, version string, args ...string) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may run a server in a folder of its own")
	}
	root, err := rootfs(version)
	if err != nil {
		t.Fatal(err)
	}
	n := serverCount.Add(1)
	s := &Server{
		t: t, version: version, root: root, args: args, data: t.TempDir(), RootPassword: "root of a test",
		// Every process has addresses of its own: tests of packages run side by side.
		Address: fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, 1+n%250),
	}
	if err := os.Chown(s.data, 999, 999); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// Start starts it, and waits until it lets root in.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	s.WaitReady()
}

// Launch starts it.
func (s *Server) Launch() {
	s.t.Helper()
	s.cmd = s.chrootCommand(append([]string{"docker-entrypoint.sh", "mariadbd",
		"--bind-address=" + s.Address, fmt.Sprintf("--extra-port=%d", mariadb.AdminPort), "--extra-max-connections=3"}, s.args...)...)
	s.cmd.Env = append(s.cmd.Env, "MARIADB_ROOT_PASSWORD_HASH="+mariadb.Hash(s.RootPassword))
	log, err := os.OpenFile(filepath.Join(filepath.Dir(s.data), "mariadbd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	s.exited = exited
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // it is killed, mostly
		close(exited)
	}(s.cmd)
}

// chrootCommand is a command in the image, with the volume of the server.
func (s *Server) chrootCommand(args ...string) *exec.Cmd {
	// In a mount namespace of its own the folders of the image are this server's; what it leaves
	// goes with it.
	const script = `set -e
mount --bind "$DATA" "$ROOT/var/lib/mysql"
mount -t tmpfs -o mode=0777 tmpfs "$ROOT/run/mysqld"
mount -t tmpfs -o mode=1777 tmpfs "$ROOT/tmp"
mount --bind /dev "$ROOT/dev"
exec setpriv --pdeathsig=KILL chroot --userspec=999:999 "$ROOT" "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation=private", "sh", "-c", script, "sh"}, args...)...)
	cmd.Env = []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "DATA=" + s.data, "ROOT=" + s.root,
	}
	return cmd
}

// RunScript runs a script beside the data of a server that does not run.
func (s *Server) RunScript(script string, env ...string) string {
	s.t.Helper()
	cmd := s.chrootCommand("sh", "-c", script)
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// InterruptInstall leaves the volume as an image does whose first start is killed between making the system
// tables and setting passwords.
func (s *Server) InterruptInstall() {
	s.t.Helper()
	s.RunScript("mariadb-install-db --datadir=/var/lib/mysql --auth-root-authentication-method=normal --skip-test-db --force")
}

// WriteFile writes a file into the volume.
func (s *Server) WriteFile(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.data, name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// WaitReady waits until root is let in.
func (s *Server) WaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.pingAsRoot()
		if err == nil || session.ErrorKindOf(err) == session.AccessDenied { // a test may have changed it
			return
		}
		select {
		case <-s.exited:
			s.t.Fatalf("mariadbd %s has ended\n%s", s.version, s.Log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("mariadbd %s does not start: %v\n%s", s.version, err, s.Log())
		}
	}
}

func (s *Server) pingAsRoot() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	sess, err := session.Login{Address: net.JoinHostPort(s.Address, fmt.Sprint(mariadb.Port)), User: session.Root, Password: s.RootPassword}.Open(ctx)
	if err == nil {
		sess.Close()
	}
	return err
}

// Log is what it has said.
func (s *Server) Log() string {
	content, err := os.ReadFile(filepath.Join(filepath.Dir(s.data), "mariadbd.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(content)
}

// Kill ends it as a power failure does.
func (s *Server) Kill() { s.terminate(syscall.SIGKILL) }

// Stop ends it as Kubernetes does.
func (s *Server) Stop() { s.terminate(syscall.SIGTERM) }

// Pause and Thaw let it hang for a while.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets it go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	if s.cmd != nil {
		_ = syscall.Kill(-s.cmd.Process.Pid, sig)
	}
}

func (s *Server) terminate(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	s.signal(sig)
	<-s.exited
	s.cmd = nil
}
