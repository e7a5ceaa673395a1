// Package mariadbd runs real MariaDB servers for tests without a node, from the images of the test cluster. Each server
// has its own directory and address.
package mariadbd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// Versions are the versions with images.
var Versions = []string{"10.11", "11.8"}

// startTimeout is the maximum time of the first start, which creates the system tables.
const startTimeout = 90 * time.Second

// Server is a server that a test can modify and kill.
type Server struct {
	t       testing.TB
	version string
	root    string
	data    string
	args    []string
	// certificate is set if there are files with a certificate.
	certificate bool

	// Address is unique, so that ports are as in a pod.
	Address string
	// RootPassword is the initial root password.
	RootPassword string
	cmd          *exec.Cmd
	exited       chan struct{}
}

var rootfsByVersion sync.Map // version -> func() (string, error)

// rootfs returns the directory of an unpacked image.
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

// New prepares a server without starting it. args are added to those of mariadbd.
func New(t testing.TB, version string, args ...string) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to run a server in a chroot")
	}
	root, err := rootfs(version)
	if err != nil {
		t.Fatal(err)
	}
	n := serverCount.Add(1)
	s := &Server{
		t: t, version: version, root: root, args: args, data: t.TempDir(), RootPassword: "root of a test",
		// Unique addresses per process: tests of several packages run in parallel.
		Address: fmt.Sprintf("127.%d.%d.%d", 64+os.Getpid()>>8&63, os.Getpid()&255, 1+n%250),
	}
	if err := os.Chown(s.data, 999, 999); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	return s
}

// UseCertificate replaces the files with the certificate. A running server loads them when it is asked to.
func (s *Server) UseCertificate(cert, key []byte) {
	s.t.Helper()
	s.WriteFile("server.crt", string(cert))
	s.WriteFile("server.key", string(key))
	s.certificate = true
}

// Start starts the server and waits until root can log in.
func (s *Server) Start() {
	s.t.Helper()
	s.Launch()
	s.WaitReady()
}

// Launch starts the server without waiting.
func (s *Server) Launch() {
	s.t.Helper()
	s.cmd = s.chrootCommand(append([]string{"docker-entrypoint.sh", "mariadbd",
		"--bind-address=" + s.Address, fmt.Sprintf("--extra-port=%d", mariadb.AdminPort), "--extra-max-connections=3"}, slices.Concat(s.args, s.certificateArgs())...)...)
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
		_ = cmd.Wait() // usually killed
		close(exited)
	}(s.cmd)
}

func (s *Server) certificateArgs() []string {
	if !s.certificate {
		return nil
	}
	return []string{"--ssl-cert=/var/lib/mysql/server.crt", "--ssl-key=/var/lib/mysql/server.key"}
}

// chrootCommand returns a command in the image, with the volume of the server.
func (s *Server) chrootCommand(args ...string) *exec.Cmd {
	// A separate mount namespace: the mounts are only visible to this server and removed with it.
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

// RunScript runs a script with the data of a stopped server.
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

// InterruptInstall leaves the volume in the state of an installation that is killed after the system tables are created
// and before passwords are set.
func (s *Server) InterruptInstall() {
	s.t.Helper()
	s.RunScript("mariadb-install-db --datadir=/var/lib/mysql --auth-root-authentication-method=normal --skip-test-db --force")
}

// WriteFile writes a file to the volume.
func (s *Server) WriteFile(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.data, name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// WaitReady waits until root can log in.
func (s *Server) WaitReady() {
	s.t.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.pingAsRoot()
		if err == nil || session.ErrorKindOf(err) == session.AccessDenied { // the test may have changed the password
			return
		}
		select {
		case <-s.exited:
			s.t.Fatalf("mariadbd %s exited\n%s", s.version, s.Log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("mariadbd %s did not become ready: %v\n%s", s.version, err, s.Log())
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

// Log returns the log of the server.
func (s *Server) Log() string {
	content, err := os.ReadFile(filepath.Join(filepath.Dir(s.data), "mariadbd.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	return string(content)
}

// Kill kills the server with SIGKILL, as a power failure would.
func (s *Server) Kill() { s.terminate(syscall.SIGKILL) }

// Stop terminates the server with SIGTERM, as Kubernetes does.
func (s *Server) Stop() { s.terminate(syscall.SIGTERM) }

// Pause suspends the server until Resume.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume continues a paused server.
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
