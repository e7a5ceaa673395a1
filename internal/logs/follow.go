package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// again is how long a log that ended too early is left alone.
const again = time.Second

// follower follows the containers that there are. It never asks what changed: each time it
// is given all of them, and starts what is not followed.
type follower struct {
	*mux
	state map[key]*followed
	said  map[string]bool // messages, so that each is said once
	ended chan end
	began bool
	left  int // containers that there was no room for when that was said
	wait  sync.WaitGroup
}

// followed is what became of a run of a container.
type followed struct {
	active  bool
	existed bool
	last    string    // time of the last line
	next    time.Time // not to be tried before
	done    bool
}

// end is that of a log.
type end struct {
	container
	last string
	err  error
}

func newFollower(m *mux) *follower {
	return &follower{mux: m, state: map[key]*followed{}, said: map[string]bool{}, ended: make(chan end)}
}

// run follows until the context ends. containers are those that there are now; changed says
// that there may be others.
func (f *follower) run(ctx context.Context, changed <-chan struct{}, containers func() ([]container, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		go func() { f.wait.Wait(); close(f.ended) }()
		for range f.ended { // nobody waits for these any more
		}
	}()
	retry := time.NewTicker(again)
	defer retry.Stop()
	for {
		now, err := containers()
		if err != nil {
			f.sayOnce(fmt.Sprintf("cannot tell the components of the pods: %v; trying again", err))
		} else {
			f.sync(ctx, now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-retry.C:
		case e := <-f.ended:
			if err := f.end(e); err != nil {
				return err
			}
		}
	}
}

// sync starts what is to be followed and is not, as far as there is room.
func (f *follower) sync(ctx context.Context, containers []container) {
	active, left := 0, 0
	for _, s := range f.state {
		if s.active {
			active++
		}
	}
	there := map[key]bool{}
	for _, c := range containers {
		if c.id == "" {
			f.sayOnce(fmt.Sprintf("%s cannot be read yet: %s; it follows when it runs", c, c.waits))
			continue
		}
		there[c.key()] = true
		s := f.state[c.key()]
		if s == nil {
			s = &followed{existed: !f.began}
			f.state[c.key()] = s
		}
		switch {
		case s.active, s.done, time.Now().Before(s.next):
		case active >= f.options.Streams:
			left++
		default:
			active++
			f.start(ctx, c, s)
		}
	}
	for k, s := range f.state {
		if !there[k] && !s.active {
			delete(f.state, k)
		}
	}
	f.began = true
	f.sayRoom(left)
}

func (f *follower) start(ctx context.Context, c container, s *followed) {
	s.active = true
	o, last := f.logOptions(s.existed), s.last
	f.wait.Go(func() {
		last, err := f.copy(ctx, c, o, last)
		f.ended <- end{c, last, err}
	})
}

// end notes the end of a log. A container that runs on is read again, from where it was left.
func (f *follower) end(e end) error {
	s := f.state[e.key()]
	s.active, s.last, s.next = false, e.last, time.Now().Add(again)
	switch {
	case fatal(e.err):
		return fmt.Errorf("read the log of %s: %w", e.container, e.err)
	case apierrors.IsNotFound(e.err):
		s.done = true // the pod is gone, as its next list will say
	case e.err != nil:
		f.sayOnce(fmt.Sprintf("%s cannot be read: %v; trying again", e.container, e.err))
	default:
		s.done = !e.running
	}
	return nil
}

// sayRoom says how many containers are not followed, when that has changed.
func (f *follower) sayRoom(left int) {
	if left == f.left {
		return
	}
	f.left = left
	if left == 0 {
		f.say("all containers are followed now")
		return
	}
	f.say("following %d of %d containers; %s", f.options.Streams, f.options.Streams+left, f.options.Hints.Fewer)
}

func (f *follower) sayOnce(message string) {
	if !f.said[message] {
		f.said[message] = true
		f.say("%s", message)
	}
}
