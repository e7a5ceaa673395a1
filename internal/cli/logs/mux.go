package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-dev/holdfast/internal/cli"
)

// opener opens the log of a container.
type opener interface {
	open(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error)
}

// mux makes one stream of many logs.
type mux struct {
	options
	logs   opener
	out    cli.Terminal
	errOut io.Writer

	mu sync.Mutex // one line at a time
}

// palette has the colours of pods, those that mean something left out.
var palette = []string{"36", "35", "34", "96", "95", "94"}

// maxLine is how much of a line is waited for: one that never ends must not fill the memory.
const maxLine = 1 << 20

// copy prints the log of a container from where it was left, and returns where it leaves it:
// the time of the last line. Lines are asked for with their times, which tell those that were
// printed before the connection was lost; the API server cannot be asked for less than a
// second.
func (m *mux) copy(ctx context.Context, c container, o corev1.PodLogOptions, last string) (string, error) {
	o.Container, o.Timestamps = c.name, true
	if last != "" {
		since, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return last, fmt.Errorf("a line of time %q: %w", last, err)
		}
		o.SinceTime, o.SinceSeconds, o.TailLines = new(metav1.NewTime(since.Truncate(time.Second))), nil, nil
	}
	stream, err := m.logs.open(ctx, c.pod, &o)
	if err != nil {
		return last, err
	}
	defer func() { _ = stream.Close() }()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(c.pod.Name)) // cannot fail
	prefix := m.out.Paint(palette[int(hash.Sum32())%len(palette)], c.String()) + "  "
	resumed := last
	lines := bufio.NewReaderSize(stream, maxLine)
	for begins := true; ; {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			stamp, text := "", string(line)
			if begins {
				stamp, text = split(text)
			}
			begins = strings.HasSuffix(text, "\n")
			if stamp == "" || resumed == "" || later(stamp, resumed) {
				if err := m.print(prefix, stamp, strings.TrimSuffix(text, "\n")); err != nil {
					return last, err
				}
			}
			if stamp != "" {
				last = stamp
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return last, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return last, err
		}
	}
}

// split takes the time off a line. What the API server itself says has none.
func split(line string) (stamp, text string) {
	stamp, text, ok := strings.Cut(line, " ")
	if !ok {
		return "", line
	}
	if _, err := time.Parse(time.RFC3339Nano, stamp); err != nil {
		return "", line
	}
	return stamp, text
}

// later compares two times as containers write them, the fraction without its zeros.
func later(a, b string) bool {
	ta, errA := time.Parse(time.RFC3339Nano, a)
	tb, errB := time.Parse(time.RFC3339Nano, b)
	return errA != nil || errB != nil || ta.After(tb)
}

func (m *mux) print(prefix, stamp, text string) error {
	if m.timestamps && stamp != "" {
		text = stamp + " " + text
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := io.WriteString(m.out, prefix+text+"\n"); err != nil {
		return printError{err}
	}
	return nil
}

// printError means that nobody reads any more.
type printError struct{ error }

func (e printError) Unwrap() error { return e.error }

func (m *mux) say(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.errOut, format+"\n", args...)
}

// logOptions are those of a container; existed says that it was there when we began.
func (m *mux) logOptions(existed bool) corev1.PodLogOptions {
	o := corev1.PodLogOptions{Follow: m.follow, Previous: m.previous}
	if m.since > 0 {
		o.SinceSeconds = new(max(1, int64(m.since.Round(time.Second).Seconds())))
	}
	if existed && m.tail >= 0 {
		o.TailLines = new(m.tail)
	}
	return o
}

// fatal says whether an error is about all pods, and the next one is not worth asking.
func fatal(err error) bool {
	var unprintable printError
	return errors.As(err, &unprintable) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// once prints the logs of containers one after the other.
func (m *mux) once(ctx context.Context, containers []container) error {
	read := 0
	for _, c := range containers {
		switch {
		case m.previous && c.restarts == 0:
			continue
		case c.id == "":
			m.say("%s cannot be read yet: %s; kubectl describe pod %s -n %s says more", c, c.waits, c.pod.Name, c.pod.Namespace)
			continue
		}
		read++
		_, err := m.copy(ctx, c, m.logOptions(true), "")
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is no error
		case fatal(err):
			return fmt.Errorf("read the log of %s: %w", c, cli.Explained(err))
		case err != nil:
			m.say("%s cannot be read: %v; try again", c, err)
		}
	}
	if read == 0 && m.previous {
		m.say("no container was restarted; leave out --previous")
	}
	return nil
}
