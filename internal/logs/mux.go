package logs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// opener opens the log of a container.
type opener interface {
	open(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error)
}

// mux makes one stream of many logs.
type mux struct {
	options Options
	logs    opener
	out     Out

	mu sync.Mutex // one line at a time
}

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
	from := Line{Component: c.component, Pod: c.pod.Name, Container: c.name, From: c.String()}
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
				if err := m.print(from, stamp, strings.TrimSuffix(text, "\n")); err != nil {
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

func (m *mux) print(line Line, stamp, text string) error {
	line.Time, line.Text = stamp, text
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.out.Line(line); err != nil {
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
	m.out.Say(fmt.Sprintf(format, args...))
}

// logOptions are those of a container; existed says that it was there when we began.
func (m *mux) logOptions(existed bool) corev1.PodLogOptions {
	o := corev1.PodLogOptions{Follow: m.options.Follow, Previous: m.options.Previous}
	if m.options.Since > 0 {
		o.SinceSeconds = new(max(1, int64(m.options.Since.Round(time.Second).Seconds())))
	}
	if existed && m.options.Tail >= 0 {
		o.TailLines = new(m.options.Tail)
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
		case m.options.Previous && c.restarts == 0:
			continue
		case c.id == "":
			m.say("%s cannot be read yet: %s; kubectl describe pod %s -n %s says more", c, c.waits, c.pod.Name, c.pod.Namespace)
			continue
		case m.options.AtMost > 0 && read == m.options.AtMost:
			m.say("read %d of %d containers; %s", read, len(containers), m.options.Hints.Fewer)
			return nil
		}
		read++
		_, err := m.copy(ctx, c, m.logOptions(true), "")
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // Ctrl-C is no error
		case fatal(err):
			return fmt.Errorf("read the log of %s: %w", c, err)
		case err != nil:
			m.say("%s cannot be read: %v; try again", c, err)
		}
	}
	if read == 0 && m.options.Previous {
		m.say("no container was restarted; %s", m.options.Hints.NotPrevious)
	}
	return nil
}
