package cli

import (
	"fmt"
	"io"
	"time"
)

// progressDelay is how long a person waits without a word.
const progressDelay = 2 * time.Second

// Progress says what is being done, once that has taken too long to be silent about it, and
// again every ten seconds. It ends when done is called.
func Progress(out io.Writer, task string) (done func()) {
	return ProgressFunc(out, func() string { return task })
}

// ProgressFunc is the same for what is done in steps: doing says at which one it is.
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
