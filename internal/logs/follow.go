package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// retryInterval is how long a log that ended too early is left alone.
const retryInterval = time.Second

// follower follows the containers that there are. It never asks what changed: each time it
// is given all of them, and starts what is not followed.
type follower struct {
	*mux
	state    map[runKey]*followState
	notified map[string]bool // messages, so that each is said once
	ended    chan streamEnd
	synced   bool
	skipped  int // containers that there was no room for when that was said
	wg       sync.WaitGroup
}

// followState is what became of a run of a container.
type followState struct {
	active  bool
	existed bool
	last    string    // time of the last line
	retryAt time.Time // not to be tried before
	done    bool
}

// streamEnd is that of a log.
type streamEnd struct {
	container
	last string
	err  error
}

func newFollower(m *mux) *follower {
	return &follower{mux: m, state: map[runKey]*followState{}, notified: map[string]bool{}, ended: make(chan streamEnd)}
}

// run follows until the context ends. containers are those that there are now; changed says
// that there may be others.
func (f *follower) run(ctx context.Context, changed <-chan struct{}, containers func() ([]container, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		go func() { f.wg.Wait(); close(f.ended) }()
		for range f.ended { // nobody waits for these any more
		}
	}()
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for {
		now, err := containers()
		if err != nil {
			f.notifyOnce(fmt.Sprintf("cannot tell the components of the pods: %v; trying again", err))
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

// sync starts what is to be followed and is not, as far as there is room.
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
			f.notifyOnce(fmt.Sprintf("%s cannot be read yet: %s; it follows when it runs", c, c.waitReason))
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

// handleEnd notes the end of a log. A container that runs on is read again, from where it was left.
func (f *follower) handleEnd(e streamEnd) error {
	s := f.state[e.key()]
	s.active, s.last, s.retryAt = false, e.last, time.Now().Add(retryInterval)
	switch {
	case isFatal(e.err):
		return fmt.Errorf("read the log of %s: %w", e.container, e.err)
	case apierrors.IsNotFound(e.err):
		s.done = true // the pod is gone, as its next list will say
	case e.err != nil:
		f.notifyOnce(fmt.Sprintf("%s cannot be read: %v; trying again", e.container, e.err))
	default:
		s.done = !e.running
	}
	return nil
}

// notifySkipped says how many containers are not followed, when that has changed.
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
