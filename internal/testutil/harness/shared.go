package harness

import (
	"context"
	"errors"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast-dev/holdfast/internal/testutil"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
	"github.com/holdfast-dev/holdfast/internal/testutil/podsim"
)

// Shared is a harness that several tests of a package share. The first test starts it, and [Main] stops it. Tests must
// not stop its operator or its control plane.
type Shared struct {
	// Behavior returns the behavior of pods.
	Behavior func(*corev1.Pod) podsim.Behavior
	Operator operator.Options

	once    sync.Once
	harness *Harness
	err     error
	cancel  context.CancelFunc
}

// NewWorld creates a namespace for one story.
func (s *Shared) NewWorld(t *testing.T) *World {
	t.Helper()
	testutil.SkipIfShort(t)
	s.once.Do(func() {
		// The context of a test would stop the simulated node with that test.
		var ctx context.Context
		ctx, s.cancel = context.WithCancel(context.Background())
		s.harness, s.err = start(ctx, s.Behavior, s.Operator)
	})
	if s.err != nil {
		t.Fatalf("start the shared harness: %v", s.err)
	}
	return s.harness.NewWorld(t)
}

// stop stops the harness if it was started. It fails if the operator sent a request that config/rbac does not allow.
func (s *Shared) stop(failed bool) error {
	if s.harness == nil {
		return nil
	}
	err := s.harness.forbiddenRequests(context.Background())
	s.cancel()
	return errors.Join(err, s.harness.stop(failed || err != nil))
}
