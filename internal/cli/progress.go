package cli

import (
	"fmt"
	"io"
	"time"
)

// patience is how long a person waits without a word.
const patience = 2 * time.Second

// Progress says what is being done, once that has taken too long to be silent about it, and
// again every ten seconds. It ends when done is called.
func Progress(out io.Writer, doing string) (done func()) {
	return ProgressOf(out, func() string { return doing })
}

// ProgressOf is the same for what is done in steps: doing says at which one it is.
func ProgressOf(out io.Writer, doing func() string) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		began := time.Now()
		wait := time.NewTimer(patience)
		defer wait.Stop()
		for {
			select {
			case <-stop:
				return
			case <-wait.C:
				fmt.Fprintf(out, "%s (%s) ...\n", doing(), time.Since(began).Round(time.Second))
				wait.Reset(10 * time.Second)
			}
		}
	}()
	return func() { close(stop); <-stopped }
}
