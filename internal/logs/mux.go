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

// logOpener opens the log of a container.
type logOpener interface {
	open(context.Context, *corev1.Pod, *corev1.PodLogOptions) (io.ReadCloser, error)
}

// mux merges the logs of containers into one stream.
type mux struct {
	options Options
	opener  logOpener
	out     Sink

	mu sync.Mutex // serializes lines
}

// maxLine limits the buffered part of a line, so that an endless line does not fill the memory.
const maxLine = 1 << 20

// copyLog prints the log of a container after the timestamp last, and returns the timestamp of the last
// printed line. Lines are requested with timestamps to skip lines that were printed before a connection
// was lost: the API server only filters by full seconds.
func (m *mux) copyLog(ctx context.Context, c container, o corev1.PodLogOptions, last string) (string, error) {
	o.Container, o.Timestamps = c.name, true
	if last != "" {
		since, err := time.Parse(time.RFC3339Nano, last)
		if err != nil {
			return last, fmt.Errorf("parse timestamp %q of a log line: %w", last, err)
		}
		o.SinceTime, o.SinceSeconds, o.TailLines = new(metav1.NewTime(since.Truncate(time.Second))), nil, nil
	}
	stream, err := m.opener.open(ctx, c.pod, &o)
	if err != nil {
		return last, err
	}
	defer func() { _ = stream.Close() }()
	from := Line{Component: c.component, Pod: c.pod.Name, Container: c.name, Prefix: c.String()}
	resumed := last
	lines := bufio.NewReaderSize(stream, maxLine)
	for lineStart := true; ; {
		line, err := lines.ReadSlice('\n')
		if len(line) > 0 {
			timestamp, text := "", string(line)
			if lineStart {
				timestamp, text = splitTimestamp(text)
			}
			lineStart = strings.HasSuffix(text, "\n")
			if timestamp == "" || resumed == "" || isLater(timestamp, resumed) {
				if err := m.printLine(from, timestamp, strings.TrimSuffix(text, "\n")); err != nil {
					return last, err
				}
			}
			if timestamp != "" {
				last = timestamp
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

// splitTimestamp splits the timestamp from a line. Messages of the API server itself have none.
func splitTimestamp(line string) (timestamp, text string) {
	timestamp, text, ok := strings.Cut(line, " ")
	if !ok {
		return "", line
	}
	if _, err := time.Parse(time.RFC3339Nano, timestamp); err != nil {
		return "", line
	}
	return timestamp, text
}

// isLater compares two RFC 3339 timestamps whose fractions can differ in length.
func isLater(a, b string) bool {
	ta, errA := time.Parse(time.RFC3339Nano, a)
	tb, errB := time.Parse(time.RFC3339Nano, b)
	return errA != nil || errB != nil || ta.After(tb)
}

func (m *mux) printLine(line Line, timestamp, text string) error {
	line.Time, line.Text = timestamp, text
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.out.WriteLine(line); err != nil {
		return sinkError{err}
	}
	return nil
}

// sinkError is an error of the sink: the reader has gone.
type sinkError struct{ error }

func (e sinkError) Unwrap() error { return e.error }

func (m *mux) notify(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.out.Notify(fmt.Sprintf(format, args...))
}

// logOptions returns the options for a container; existed is set if it existed at the start of the stream.
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

// isFatal reports whether an error affects all pods, so that reading others is useless.
func isFatal(err error) bool {
	var unprintable sinkError
	return errors.As(err, &unprintable) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)
}

// printOnce prints the logs of the containers one after the other.
func (m *mux) printOnce(ctx context.Context, containers []container) error {
	read := 0
	for _, c := range containers {
		switch {
		case m.options.Previous && c.restarts == 0:
			continue
		case c.id == "":
			m.notify("%s has no logs yet: %s; for details: kubectl describe pod %s -n %s", c, c.waitReason, c.pod.Name, c.pod.Namespace)
			continue
		case m.options.MaxContainers > 0 && read == m.options.MaxContainers:
			m.notify("read %d of %d containers; %s", read, len(containers), m.options.Hints.SelectFewer)
			return nil
		}
		read++
		_, err := m.copyLog(ctx, c, m.logOptions(true), "")
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // canceled by the user
		case isFatal(err):
			return fmt.Errorf("read the log of %s: %w", c, err)
		case err != nil:
			m.notify("%s cannot be read: %v; try again", c, err)
		}
	}
	if read == 0 && m.options.Previous {
		m.notify("no container was restarted; %s", m.options.Hints.OmitPrevious)
	}
	return nil
}
