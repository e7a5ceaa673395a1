package cli

import (
	"fmt"
	"io"
	"time"
)

// progressDelay is the time after which progress is printed.
const progressDelay = 2 * time.Second

// Progress prints the current task after progressDelay and then every ten seconds, until done is called.
func Progress(out io.Writer, task string) (done func()) {
	return ProgressFunc(out, func() string { return task })
}

// ProgressFunc is like Progress for a task with several steps: currentTask returns the current step.
func ProgressFunc(out io.Writer, currentTask func() string) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		start := time.Now()
		timer := time.NewTimer(progressDelay)
		defer timer.Stop()
		for {
			select {
			case <-stop:
				return
			case <-timer.C:
				fmt.Fprintf(out, "%s (%s) ...\n", currentTask(), time.Since(start).Round(time.Second))
				timer.Reset(10 * time.Second)
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
