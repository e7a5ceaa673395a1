package calls

import (
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
)

// ofCreation is what one AppService with a port may cost until it is Ready.
var ofCreation = tally{children: 2, status: 2, events: 2}

// names are the AppServices that stay for all rows.
func (s *stage) names() []string {
	names := make([]string, *apps)
	for i := range names {
		names[i] = fmt.Sprintf("app-%04d", i)
	}
	return names
}

// create makes all AppServices: a few one after another, a few at once, and then the rest.
func (s *stage) create() {
	all := s.names()
	few := min(20, len(all)/5)
	s.created("one after another", all[:few], func(names []string) {
		for _, name := range names {
			s.newApp(name, 1)
			s.waitReady(name)
		}
	})
	s.created("at once", all[few:2*few], s.createAtOnce)
	s.created("at once", all[2*few:], s.createAtOnce)
}

func (s *stage) createAtOnce(names []string) {
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() { s.newApp(name, 1) })
	}
	group.Wait()
	s.waitReady(names...)
}

func (s *stage) created(how string, names []string, create func([]string)) {
	got := ours(s.requests(func() { create(names) }))
	most, notes := worst(got, names, func(t tally) bool { return t.within(ofCreation) })
	s.table.add(row{
		Name: fmt.Sprintf("create %d %s, the dearest", len(names), how), Budget: ofCreation.String(),
		Measured: most.String(), OK: most.within(ofCreation), Notes: notes,
	})
}

// worst is the largest of each number over these applications and over what was about
// none of them, with the requests of the first one that is not fine.
func worst(got audit.Events, names []string, fine func(tally) bool) (most tally, notes []string) {
	counts := perApp(got)
	if stray := counts[""]; stray != (tally{}) {
		most = stray
		notes = sample(got.Where(func(e *audit.Event) bool { return appOf(e) == "" }))
	}
	for _, name := range names {
		most = most.most(counts[name])
		if len(notes) == 0 && !fine(counts[name]) {
			notes = sample(got.Where(func(e *audit.Event) bool { return appOf(e) == name }))
		}
	}
	return most, notes
}
