package sseclient

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// event is an event of a stream. A comment is an empty event.
type event struct {
	id    *string
	name  string
	data  []byte
	retry time.Duration
}

// maxLine is larger than any line that a hub sends.
const maxLine = 4 << 20

// readEvent reads an event up to the next empty line.
func readEvent(r *bufio.Reader) (event, error) {
	var e event
	for {
		line, err := readLine(r)
		if err != nil || len(line) == 0 {
			return e, err
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			id := string(value)
			e.id = &id
		case "event":
			e.name = string(value)
		case "data":
			e.data = append(e.data, value...)
		case "retry":
			if ms, err := strconv.Atoi(string(value)); err == nil {
				e.retry = time.Duration(ms) * time.Millisecond
			}
		}
	}
}

func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > maxLine {
			return nil, fmt.Errorf("line exceeds %d bytes: not a stream of the center", maxLine)
		}
		if err == nil && line == nil {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			// A stream never ends with a complete event.
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// ID identifies an entry.
type ID struct{ Topic, Key string }

// Entry is an entry as sent by the center.
type Entry struct {
	Topic string          `json:"topic"`
	Key   string          `json:"key"`
	Event string          `json:"event"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// state is the state of a client.
type state struct {
	entries map[ID]Entry
	// pending is the incomplete snapshot.
	pending map[ID]Entry
	lastID  string
}

// apply applies an event and reports whether the entries changed. After an error the client cannot resume.
func (s *state) apply(e event) (changed bool, err error) {
	if e.id != nil {
		s.lastID = *e.id
	}
	defer func() {
		if err != nil {
			s.lastID = ""
		}
	}()
	switch e.name {
	case "", "reset", "reconnect":
		return false, nil
	case "snapshot":
		return s.snapshot(e.data)
	}
	var entry Entry
	if err := json.Unmarshal(e.data, &entry); err != nil {
		return false, fmt.Errorf("read event %s: %w", e.name, err)
	}
	if s.entries == nil {
		return false, fmt.Errorf("received event %s before a snapshot", e.name)
	}
	id := ID{entry.Topic, entry.Key}
	if entry.Body == nil {
		delete(s.entries, id)
		return true, nil
	}
	s.entries[id] = entry
	return true, nil
}

func (s *state) snapshot(data []byte) (bool, error) {
	var part struct {
		Part     int     `json:"part"`
		Complete bool    `json:"complete"`
		Entries  []Entry `json:"entries"`
	}
	if err := json.Unmarshal(data, &part); err != nil {
		return false, fmt.Errorf("read snapshot: %w", err)
	}
	if part.Part == 0 {
		s.pending = map[ID]Entry{}
	}
	if s.pending == nil {
		return false, fmt.Errorf("received part %d of a snapshot without part 0", part.Part)
	}
	for _, e := range part.Entries {
		s.pending[ID{e.Topic, e.Key}] = e
	}
	if !part.Complete {
		return false, nil
	}
	s.entries, s.pending = s.pending, nil
	return true, nil
}
