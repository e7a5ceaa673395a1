package calls

import (
	"fmt"
	"sync"
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
	s.table.add(spent(fmt.Sprintf("create %d %s, each", len(names), how), ofCreation, got, names, necessary...))
}
