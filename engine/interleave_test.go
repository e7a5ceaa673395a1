package engine

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	faults "github.com/holdfast-dev/holdfast/test/faults/report"
)

// interleaveSeed is where the walks begin.
const interleaveSeed = 20260101

var replay = flag.String("interleave.path", "", "play exactly this path: the name of its input, a colon, and its steps")

// What may go wrong on one path: in a search of all paths little of everything, and on long
// walks more. deep is how long a walk is at least, if its input lasts that long.
var (
	little = budget{crashes: 2, losses: 1, ticks: 1}
	more   = budget{crashes: 3, losses: 3, ticks: 3, resyncs: 30}
)

const (
	deep    = 60
	deepest = 1000
)

// TestInterleavings plays the reconcilers of both kinds, the controllers of Kubernetes and
// people against each other, in many orders, with caches that are behind, crashes and lost
// answers. In every state the rules hold, and from everywhere the same end is reached.
func TestInterleavings(t *testing.T) {
	if *replay != "" {
		replayPath(t, *replay)
		return
	}
	states, walks, least := 500, 8, 10_000
	switch {
	case raceDetector: // looks for races; make test-api plays it once more without
		states, walks, least = 40, 1, 0
	case os.Getenv("HOLDFAST_LONG") != "":
		states, walks, least = 6000, 80, 100_000
	}
	start := time.Now()
	var mu sync.Mutex
	var all []*search
	var failures []string
	t.Run("inputs", func(t *testing.T) {
		for _, in := range inputs {
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				s := newSearch(in, little, interleaveSeed, mistake{})
				err := s.run(states, walks, more)
				t.Log(s)
				mu.Lock()
				defer mu.Unlock()
				all = append(all, s)
				if err != nil {
					line := fmt.Sprintf("go test ./engine -run TestInterleavings -interleave.path='%s: %s'", in.name, pathOf(err))
					failures = append(failures, line)
					t.Errorf("%v\nplay it again: %s", err, line)
				}
			})
		}
	})
	sum := &search{in: &input{name: "all"}, visited: map[[32]byte]bool{}}
	for _, s := range all {
		sum.add(s)
	}
	t.Logf("%s, %.1f s", sum, time.Since(start).Seconds())
	if len(failures) == 0 && sum.states < least {
		t.Errorf("only %d states were visited", sum.states)
	}
	faults.Since(t, start, faults.Row{Test: "8 interleavings", Generated: len(inputs), Run: len(all), Failed: len(failures),
		Seed: interleaveSeed, Seen: sum.String(), Failures: failures})
}

// run makes the whole search of an input.
func (s *search) run(states, walks int, b budget) error {
	if err := s.breadth(states, 50); err != nil {
		return err
	}
	for range walks {
		if err := s.walk(b, deepest); err != nil {
			return err
		}
	}
	return nil
}

func pathOf(err error) string {
	var f *found
	if errors.As(err, &f) {
		return pathText(f.path)
	}
	return ""
}

// replayPath plays one path and says what it meets.
func replayPath(t *testing.T, text string) {
	name, path, _ := strings.Cut(text, ":")
	for _, in := range inputs {
		if in.name != name {
			continue
		}
		w := newWorld(in, budget{crashes: 100, losses: 100, ticks: 100, resyncs: 100}, mistake{})
		for part := range strings.SplitSeq(path, ",") {
			st, err := parseStep(part)
			if err != nil {
				t.Fatal(err)
			}
			w.do(st)
			t.Logf("%s %v", st, w.failed)
			if w.violated != "" {
				t.Fatal(w.violated)
			}
		}
		t.Logf("%s\n%s", w.unfinished(), w.endText())
		return
	}
	t.Fatalf("there is no input %q", name)
}

// TestInterleavingsRepeat plays the same walk twice: nothing but the seed decides.
func TestInterleavingsRepeat(t *testing.T) {
	for _, in := range inputs {
		var states [2]map[[32]byte]bool
		for i := range states {
			s := newSearch(in, little, interleaveSeed, mistake{})
			if err := s.walk(more, deepest); err != nil {
				t.Fatalf("%s: %v", in.name, err)
			}
			states[i] = s.visited
		}
		for key := range states[0] {
			if !states[1][key] || len(states[0]) != len(states[1]) {
				t.Fatalf("%s: two walks with one seed differ", in.name)
			}
		}
	}
}

// TestInterleavingsFindMistakes searches with an engine that is wrong on purpose.
func TestInterleavingsFindMistakes(t *testing.T) {
	cases := map[string]struct {
		input   string
		trouble budget
		wrong   mistake
		want    string
	}{
		"applies without preconditions":           {"one name for two", budget{}, mistake{blindApply: true}, "it is not that of"},
		"deletes without preconditions or a look": {"return", budget{}, mistake{blindDelete: true, noLiveRead: true}, "the spec wants it"},
		"an old list is believed":                 {"edit", budget{crashes: 1}, mistake{noLiveRead: true}, "goes over generation"},
		"changes of a Deployment are not heard":   {"service", budget{}, mistake{deaf: "Deployment"}, "at rest, AppService/web"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			for _, in := range append(inputs, extraInputs...) {
				if in.name != tc.input {
					continue
				}
				s := newSearch(in, tc.trouble, interleaveSeed, tc.wrong)
				err := s.run(500, 1000, tc.trouble)
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Fatalf("not found: %v, %s", err, s)
				}
				t.Logf("found after %d states, %.1f s: %v\n%s", s.states, time.Since(start).Seconds(), firstLine(err), pathOf(err))
				return
			}
			t.Fatalf("there is no input %q", tc.input)
		})
	}
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
