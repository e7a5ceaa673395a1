package audit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// markPrefix is the URI prefix of the package's own requests, which are never returned as events.
const markPrefix = "/version?mark="

const (
	// markTimeout is generous: the line of an answered request already exists.
	markTimeout = 10 * time.Second
	// deletionTimeout limits the wait for responses of an API server that was killed.
	deletionTimeout = 10 * time.Second
)

// Position is an offset between two lines of the log. The zero value is the start.
type Position int64

// Log is the audit log of one API server. It has no state: several tests can read the same file from different
// positions.
type Log struct {
	path      string
	substring string // only lines that contain it are parsed
}

// Open opens an existing file.
func Open(path string) (*Log, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open audit log: %w", err)
	}
	return &Log{path: path}, nil
}

// WithSubstring returns the log restricted to lines that contain a text, for example a namespace. Other lines are not
// parsed.
func (l *Log) WithSubstring(text string) *Log { return &Log{path: l.path, substring: text} }

// Mark returns a position after the lines of all requests that were answered before the call.
func (l *Log) Mark(ctx context.Context, cfg *rest.Config) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	size, err := l.size()
	if err != nil {
		return 0, fmt.Errorf("mark audit log: %w", err)
	}
	id := string(uuid.NewUUID())
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return 0, fmt.Errorf("mark audit log: %w", err)
	}
	if err := client.RESTClient().Get().RequestURI(markPrefix + id).Do(ctx).Error(); err != nil {
		return 0, fmt.Errorf("mark audit log: %w", err)
	}
	end, err := l.waitFor(ctx, size, id)
	if err != nil {
		return 0, fmt.Errorf("mark audit log: wait for own request in %s: %w", l.path, err)
	}
	return end, nil
}

// Between returns the events between two positions. A negative end means all complete lines.
func (l *Log) Between(from, to Position) (Events, error) {
	var events Events
	_, err := l.readLines(from, to, func(_ Position, line []byte) error {
		if !bytes.Contains(line, []byte(l.substring)) {
			return nil
		}
		e, err := parse(line)
		if err != nil || e.Stage == stageReceived || strings.HasPrefix(e.RequestURI, markPrefix) {
			return err
		}
		events = append(events, e)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return events, nil
}

// Since returns the events from a position until now. It marks the log and reads up to the mark, or up to the last
// response to a deletion that was requested before the mark.
func (l *Log) Since(ctx context.Context, cfg *rest.Config, from Position) (Events, error) {
	to, err := l.Mark(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if to, err = l.waitForDeletions(ctx, from, to); err != nil {
		return nil, fmt.Errorf("wait for answers in audit log: %w", err)
	}
	return l.Between(from, to)
}

// waitForDeletions returns the position after the responses to all deletions received between two positions, or the
// second position if there are none. A deletion is visible before it is answered: the API server first releases the
// address of a Service, which takes more than half a second on a busy machine.
func (l *Log) waitForDeletions(ctx context.Context, from, to Position) (Position, error) {
	ctx, cancel := context.WithTimeout(ctx, deletionTimeout)
	defer cancel()
	pending := map[string]bool{}
	end, err := l.follow(ctx, from, func(start Position, line []byte) (bool, error) {
		if len(pending) > 0 || bytes.Contains(line, []byte(stageReceived)) && bytes.Contains(line, []byte(l.substring)) {
			e, err := parse(line)
			if err != nil {
				return false, err
			}
			switch {
			case e.Stage != stageReceived:
				delete(pending, e.AuditID)
			case start < to:
				pending[e.AuditID] = true
			}
		}
		return len(pending) == 0 && start+Position(len(line)) >= to, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return end, nil
	}
	return end, err
}

func (l *Log) size() (Position, error) {
	info, err := os.Stat(l.path)
	if err != nil {
		return 0, err
	}
	return Position(info.Size()), nil
}

// errStopReading stops the search for a line.
var errStopReading = errors.New("found")

// waitFor returns the end of the line that contains text.
func (l *Log) waitFor(ctx context.Context, from Position, text string) (Position, error) {
	return l.follow(ctx, from, func(_ Position, line []byte) (bool, error) {
		return bytes.Contains(line, []byte(text)), nil
	})
}

// follow calls visit for each line until it returns errStopReading, and returns the end of the last line. It polls the
// file, because another process writes it; from may lie within a line.
func (l *Log) follow(ctx context.Context, from Position, visit func(start Position, line []byte) (bool, error)) (Position, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		end, err := l.readLines(from, -1, func(start Position, line []byte) error {
			done, err := visit(start, line)
			if done {
				return errStopReading
			}
			return err
		})
		if errors.Is(err, errStopReading) {
			return end, nil
		}
		if err != nil {
			return end, err
		}
		from = end
		select {
		case <-ctx.Done():
			return end, ctx.Err()
		case <-tick.C:
		}
	}
}

// readLines calls visit for each complete line that begins in [from, to), or in the whole file when to is negative, and
// returns the end of the last one. An incomplete last line is left for the next call.
func (l *Log) readLines(from, to Position, visit func(start Position, line []byte) error) (Position, error) {
	f, err := os.Open(l.path)
	if err != nil {
		return from, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Seek(int64(from), io.SeekStart); err != nil {
		return from, err
	}
	r := bufio.NewReaderSize(f, 1<<20)
	for to < 0 || from < to {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		start := from
		from += Position(len(line))
		if err := visit(start, line); err != nil {
			return from, fmt.Errorf("line at byte %d: %w", start, err)
		}
	}
	return from, nil
}

// eventStart is the start of every line.
var eventStart = []byte(`{"kind":"Event","apiVersion":"audit.k8s.io/`)

// parse parses one line. An API server that was killed leaves an incomplete line to which the next one appends. Its
// request was never answered, so it is dropped.
func parse(line []byte) (Event, error) {
	var e Event
	err := json.Unmarshal(line, &e)
	if err == nil {
		return e, nil
	}
	if next := bytes.LastIndex(line, eventStart); next > 0 {
		e = Event{}
		if json.Unmarshal(line[next:], &e) == nil {
			return e, nil
		}
	}
	return Event{}, err
}
