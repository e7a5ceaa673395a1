package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retryInterval is the delay before a stream that ended early is retried.
const retryInterval = time.Second

// follower follows all current containers. On each change it receives the full list and starts the
// missing streams.
type follower struct {
	*mux
	state    map[runKey]*followState
	notified map[string]bool // messages that were already reported
	ended    chan streamEnd
	synced   bool
	skipped  int // last reported number of containers beyond MaxStreams
	wg       sync.WaitGroup
}

// followState is the state of the stream of a container run.
type followState struct {
	active  bool
	existed bool
	last    string    // timestamp of the last line
	retryAt time.Time // earliest retry
	done    bool
}

// streamEnd is the end of a stream.
type streamEnd struct {
	container
	last string
	err  error
}

func newFollower(m *mux) *follower {
	return &follower{mux: m, state: map[runKey]*followState{}, notified: map[string]bool{}, ended: make(chan streamEnd)}
}

// run follows until the context ends. containers returns the current containers; changed signals that they
// may have changed.
func (f *follower) run(ctx context.Context, changed <-chan struct{}, containers func() ([]container, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		go func() { f.wg.Wait(); close(f.ended) }()
		for range f.ended { // unblock the remaining streams
		}
	}()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		now, err := containers()
		if err != nil {
			f.notifyOnce(fmt.Sprintf("cannot determine the components of the pods: %v; retrying", err))
		} else {
			f.sync(ctx, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
		case e := <-f.ended:
			if err := f.handleEnd(e); err != nil {
				return err
			}
		}
	}
}

// sync starts the missing streams, up to MaxStreams.
func (f *follower) sync(ctx context.Context, containers []container) {
	active, skipped := 0, 0
	for _, s := range f.state {
		if s.active {
			active++
		}
	}
	present := map[runKey]bool{}
	for _, c := range containers {
		if c.id == "" {
			f.notifyOnce(fmt.Sprintf("%s has no logs yet: %s; it is followed when it starts", c, c.waitReason))
			continue
		}
		present[c.key()] = true
		s := f.state[c.key()]
		if s == nil {
			s = &followState{existed: !f.synced}
			f.state[c.key()] = s
		}
		switch {
		case s.active, s.done, time.Now().Before(s.retryAt):
		case active >= f.options.MaxStreams:
			skipped++
		default:
			active++
			f.start(ctx, c, s)
		}
	}
	for k, s := range f.state {
		if !present[k] && !s.active {
			delete(f.state, k)
		}
	}
	f.synced = true
	f.notifySkipped(skipped)
}

func (f *follower) start(ctx context.Context, c container, s *followState) {
	s.active = true
	o, last := f.logOptions(s.existed), s.last
	f.wg.Go(func() {
		last, err := f.copyLog(ctx, c, o, last)
		f.ended <- streamEnd{c, last, err}
	})
}

// handleEnd records the end of a stream. If the container is still running, the stream is resumed later.
func (f *follower) handleEnd(e streamEnd) error {
	s := f.state[e.key()]
	s.active, s.last, s.retryAt = false, e.last, time.Now().Add(retryInterval)
	switch {
	case isFatal(e.err):
		return fmt.Errorf("read the log of %s: %w", e.container, e.err)
	case apierrors.IsNotFound(e.err):
		s.done = true // the pod was deleted
	case e.err != nil:
		f.notifyOnce(fmt.Sprintf("%s cannot be read: %v; retrying", e.container, e.err))
	default:
		s.done = !e.running
	}
	return nil
}

// notifySkipped reports the number of containers that are not followed, if it changed.
func (f *follower) notifySkipped(skipped int) {
	if skipped == f.skipped {
		return
	}
	f.skipped = skipped
	if skipped == 0 {
		f.notify("all containers are followed now")
		return
	}
	f.notify("following %d of %d containers; %s", f.options.MaxStreams, f.options.MaxStreams+skipped, f.options.Hints.SelectFewer)
}

func (f *follower) notifyOnce(message string) {
	if !f.notified[message] {
		f.notified[message] = true
		f.notify("%s", message)
	}
}
