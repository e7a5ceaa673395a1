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

// event is one of a stream; comments are events without anything.
type event struct {
	id    *string
	name  string
	data  []byte
	retry time.Duration
}

// maxLine is more than a hub ever sends in one line.
const maxLine = 4 << 20

// readEvent reads up to the next empty line.
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
			return nil, fmt.Errorf("a line of more than %d bytes: not the stream of a center", maxLine)
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
			// A stream has no end of its own.
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}

// ID is what an entry goes by.
type ID struct{ Topic, Key string }

// Entry is one entry as the center sent it.
type Entry struct {
	Topic string          `json:"topic"`
	Key   string          `json:"key"`
	Event string          `json:"event"`
	Body  json.RawMessage `json:"body,omitempty"`
}

// state is what a client has made of the events so far.
type state struct {
	entries map[ID]Entry
	// pending is the snapshot that is not complete.
	pending map[ID]Entry
	lastID  string
}

// apply says whether the entries changed. After an error there is nothing to carry on from.
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
		return false, fmt.Errorf("event %s came before a snapshot", e.name)
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
		return false, fmt.Errorf("part %d of a snapshot came without the first one", part.Part)
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
