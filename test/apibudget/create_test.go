package apibudget

import (
	"fmt"
	"sync"
)

// appCreationBudget is the budget of an AppService with a port from its creation until it is Ready.
var appCreationBudget = requestCounts{children: 2, status: 2, events: 2}

// appNames are the AppServices of all rows.
func (s *harness) appNames() []string {
	names := make([]string, *apps)
	for i := range names {
		names[i] = fmt.Sprintf("app-%04d", i)
	}
	return names
}

// measureAppCreation creates all AppServices: some one after another, some at the same time, and then the rest.
func (s *harness) measureAppCreation() {
	all := s.appNames()
	few := min(20, len(all)/5)
	s.addAppCreationRow("one after another", all[:few], func(names []string) {
		for _, name := range names {
			s.createApp(name, 1)
			s.waitReady(name)
		}
	})
	s.addAppCreationRow("at once", all[few:2*few], s.createAtOnce)
	s.addAppCreationRow("at once", all[2*few:], s.createAtOnce)
}

func (s *harness) createAtOnce(names []string) {
	var group sync.WaitGroup
	for _, name := range names {
		group.Go(func() { s.createApp(name, 1) })
	}
	group.Wait()
	s.waitReady(names...)
}

func (s *harness) addAppCreationRow(how string, names []string, create func([]string)) {
	got := operatorRequests(s.recordRequests(func() { create(names) }))
	s.table.add(budgetRow(fmt.Sprintf("create %d %s, each", len(names), how), appCreationBudget, got, names, exactCategories...))
}
