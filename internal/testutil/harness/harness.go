// Package harness runs integration tests, called stories, on a real control plane with a simulated node and the operator
// binary.
//
// Safety rule: tests fail if the operator sends a request that config/rbac does not allow.
package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/controlplane"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/sqlsim"
	"github.com/holdfast-dev/holdfast/internal/testutil/volsim"
)

// Main runs the tests of a package and stops shared harnesses.
func Main(m *testing.M, shared ...*Shared) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("stories need an API server: make test-api runs them")
		return
	}
	// Stories mostly wait: limiting them to the number of cores would take minutes.
	if err := flag.Set("test.parallel", "32"); err != nil {
		panic(err)
	}
	ctrl.SetLogger(logr.Discard()) // the client of the tests logs nothing useful
	code := m.Run()
	for _, s := range shared {
		if err := s.stop(code != 0); err != nil {
			fmt.Println("FAIL:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Harness is a control plane and an operator.
type Harness struct {
	Plane    *controlplane.Plane
	AuditLog *audit.Log
	Operator *operator.Operator
	// Databases are the simulated database servers in its pods.
	Databases *sqlsim.Pods
}

// New starts a harness that stops with the test. behavior returns the behavior of pods.
func New(t *testing.T, behavior func(*corev1.Pod) podsim.Behavior, o operator.Options) *Harness {
	t.Helper()
	testutil.SkipIfShort(t)
	s, err := start(t.Context(), behavior, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start starts a control plane, the simulators until the context ends, and the operator.
func start(ctx context.Context, behavior func(*corev1.Pod) podsim.Behavior, o operator.Options) (_ *Harness, err error) {
	s := &Harness{}
	if s.Plane, err = controlplane.Start(ctx, controlplane.Options{Audit: true}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop(true))
		}
	}()
	if err := operator.ApplyManifests(ctx, s.Plane); err != nil {
		return nil, err
	}
	if _, err := podsim.Start(ctx, s.Plane.Config, podsim.WithBehavior(behavior)); err != nil {
		return nil, err
	}
	if err := volsim.Start(ctx, s.Plane.Config); err != nil {
		return nil, err
	}
	if s.AuditLog, err = audit.Open(s.Plane.AuditLog()); err != nil {
		return nil, err
	}
	databases, env, err := sqlsim.Start(ctx, s.Plane.Config)
	if err != nil {
		return nil, err
	}
	s.Databases = databases
	o.Env = append(slices.Clip(o.Env), env)
	if s.Operator, err = operator.Prepare(ctx, s.Plane, s.logDir(), o); err != nil {
		return nil, err
	}
	if err := s.Operator.StartAndWait(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// logDir is the directory with the logs of the operator and the control plane.
func (s *Harness) logDir() string { return filepath.Join(s.Plane.Dir, "log") }

// stop stops all processes. Logs are kept after a failure.
func (s *Harness) stop(failed bool) error {
	var err error
	if s.Operator != nil {
		err = s.Operator.StopAndCheckLog()
		if failed || err != nil {
			fmt.Printf("end of the operator log:\n%s\n", s.Operator.LogTail())
		}
	}
	if s.Plane.KeepDir = failed || err != nil; s.Plane.KeepDir {
		fmt.Println("logs of the operator and the control plane are kept in", s.logDir())
	}
	return errors.Join(err, s.Plane.Stop())
}

// ExpectNoForbiddenRequests fails the test if the API server rejected a request of the operator for lack of permissions.
func (s *Harness) ExpectNoForbiddenRequests(t *testing.T) {
	t.Helper()
	if err := s.forbiddenRequests(t.Context()); err != nil {
		t.Error(err)
	}
}

func (s *Harness) forbiddenRequests(ctx context.Context) error {
	requests, err := s.AuditLog.Since(ctx, s.Plane.Config, 0)
	if err != nil {
		return err
	}
	forbidden := requests.By(operator.User).Where(func(e *audit.Event) bool {
		if e.ResponseStatus.Code != 403 {
			return false
		}
		message := e.ResponseStatus.Message
		return !strings.Contains(message, "quota") &&
			!strings.Contains(message, "must support resize") && // StorageClass without expansion
			!strings.Contains(message, "is being terminated") && // terminating namespace
			!strings.Contains(message, "definition is terminating") && // terminating CRD
			!strings.Contains(message, "cannot find RESTMapping") // new CRD that is not known everywhere yet
	})
	if len(forbidden) > 0 {
		return fmt.Errorf("config/rbac does not cover what the operator does:\n%sFirst response: %s", forbidden.Count(), forbidden[0].ResponseStatus.Message)
	}
	return nil
}

// BehaviorByTag maps image tags to pod behaviors.
func BehaviorByTag(behaviors map[string]podsim.Behavior) func(*corev1.Pod) podsim.Behavior {
	return func(pod *corev1.Pod) podsim.Behavior {
		for i := range pod.Spec.Containers {
			_, tag, _ := strings.Cut(pod.Spec.Containers[i].Image, ":")
			if b, ok := behaviors[tag]; ok {
				return b
			}
		}
		return podsim.Behavior{}
	}
}
