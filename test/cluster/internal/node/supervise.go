package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

// maxRestarts is the maximum number of restarts of a component; more restarts indicate a permanent failure.
const maxRestarts = 20

type supervisor struct {
	Config
	start    time.Time
	progress io.WriteCloser
	log      *slog.Logger

	plane *controlplane.Plane

	mu         sync.Mutex
	parts      []*controlplane.Process
	failureErr error
}

// Supervise runs all components of the cluster until it is killed. It reports progress to its parent process on a pipe.
func Supervise(dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	for _, fd := range []int{progressFD, listenerFD} {
		syscall.CloseOnExec(fd) // not inherited: up must see EOF when this process exits
	}
	s := &supervisor{
		start:    time.Now(),
		progress: os.NewFile(progressFD, "progress"),
		log:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	err := s.bringUp(ctx, dir)
	if err != nil {
		s.report("%s%v", progressError, err)
		return err
	}
	s.report(progressReady)
	_ = s.progress.Close()
	s.restartExitedParts(ctx)
	return nil
}

func (s *supervisor) bringUp(ctx context.Context, dir string) (err error) {
	if s.Config, err = readConfig(dir); err != nil {
		return err
	}
	if s.Level == build.Node {
		err = s.bringUpNode(ctx)
	} else {
		err = s.bringUpControlPlane(ctx, controlplane.Options{PortBase: s.Port})
	}
	if err != nil {
		return err
	}
	return s.writeKubeconfig()
}

func (s *supervisor) bringUpControlPlane(ctx context.Context, o controlplane.Options) (err error) {
	o.Dir, o.Assets, o.Audit, o.Scheduler = s.Dir, s.Assets, s.Audit, true
	if s.plane, err = controlplane.Start(ctx, o); err != nil {
		return err
	}
	s.track(s.plane.Etcd, s.plane.APIServer, s.plane.ControllerManager, s.plane.Scheduler)
	s.reportStep("control plane ready")
	return nil
}

// writeKubeconfig is the last step and atomic: the file means that the cluster is ready.
func (s *supervisor) writeKubeconfig() error {
	k := controlplane.Kubeconfig(s.plane.Config)
	for _, c := range k.Clusters {
		c.Server = fmt.Sprintf("https://127.0.0.1:%d", s.Port)
	}
	tmp := s.Kubeconfig() + ".new"
	if err := clientcmd.WriteToFile(k, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, s.Kubeconfig())
}

// run starts a program of the cluster and restarts it when it exits.
func (s *supervisor) run(name string, args ...string) error {
	p := &controlplane.Process{
		Name: name, Path: filepath.Join(s.Assets, name), Args: args, Log: s.path("log/" + name + ".log"),
		// containerd and the kubelet search their helpers in this PATH.
		Env: []string{"PATH=" + s.Assets + ":" + os.Getenv("PATH")},
	}
	if err := p.Start(); err != nil {
		return err
	}
	s.track(p)
	return nil
}

func (s *supervisor) track(parts ...*controlplane.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, parts...)
}

// recordFailure records a fatal error of supervise itself.
func (s *supervisor) recordFailure(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failureErr = errors.Join(s.failureErr, err)
}

// failure returns an error if a required component has exited.
func (s *supervisor) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if p.Pid() == 0 {
			return p.Failure()
		}
	}
	return s.failureErr
}

// restartExitedParts restarts components that have exited, like the service manager of a real node.
func (s *supervisor) restartExitedParts(ctx context.Context) {
	for _, p := range s.parts {
		go s.restartOnExit(p)
	}
	<-ctx.Done()
}

func (s *supervisor) restartOnExit(p *controlplane.Process) {
	for range maxRestarts {
		<-p.Exited()
		time.Sleep(time.Second) // a test that killed it must be able to observe that
		s.log.Warn("Component exited; restarting", "reason", p.Failure())
		if err := p.Start(); err != nil {
			s.log.Error("Failed to start component", "reason", err)
			return
		}
	}
	s.log.Error("Component exited too often; not restarting", "part", p.Name)
}

// reportStep reports a step with the seconds since the start.
func (s *supervisor) reportStep(format string, args ...any) {
	s.report("%5.1f s  %s", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

func (s *supervisor) report(format string, args ...any) {
	// The path on the host differs from that in the node.
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), nodeDataDir+"/", s.hostDir()+"/")
	if _, err := fmt.Fprintln(s.progress, text); err != nil {
		s.log.Info("No reader for progress", "progress", text)
	}
}
