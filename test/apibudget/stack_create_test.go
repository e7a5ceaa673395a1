package apibudget

import (
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// stackCreationBudget is the budget of a stack from its creation until it is Ready. The status is updated when the
// first components are created, when lone is ready, and when each of migrate, api and web is complete and the next
// one is created. There is one event per component and one for Ready. The Secret and the ConfigMap are read once.
var stackCreationBudget = requestCounts{children: childrenPerStack, status: 5, events: 5, reads: 2, finalizers: 1, revisions: 1, healthyMarks: 1}

// measureStackCreation creates all AppStacks: some one after another, and then the rest.
func (s *harness) measureStackCreation() {
	all := s.stackNames()
	few := min(20, len(all)/10)
	var group sync.WaitGroup
	for _, name := range all {
		group.Go(func() { s.createConfigSources(name) })
	}
	group.Wait()
	first := s.addStackCreationRow("one after another", all[:few], func(names []string) {
		for _, name := range names {
			s.createStack(name)
			s.waitReady(name)
		}
	})
	s.table.add(hashKeyRow("first use in the cluster", requestCounts{reads: 1, otherWrites: 1}, first))
	s.addStackCreationRow("at once", all[few:], func(names []string) {
		var group sync.WaitGroup
		for _, name := range names {
			group.Go(func() { s.createStack(name) })
		}
		group.Wait()
		s.waitReady(names...)
	})
}

// addStackCreationRow returns the requests for the hash key of Secrets.
func (s *harness) addStackCreationRow(how string, names []string, create func([]string)) audit.Events {
	got, key := splitHashKeyRequests(operatorRequests(s.recordRequests(func() { create(names) })))
	name := fmt.Sprintf("create %d stacks %s, each", len(names), how)
	s.table.add(budgetRow(name, stackCreationBudget, got, names, append(exactCategories, reads)...))
	return key
}

// splitHashKeyRequests separates the requests for the key that hashes Secrets, which belongs to no application.
func splitHashKeyRequests(got audit.Events) (rest, key audit.Events) {
	isHashKey := func(e *audit.Event) bool {
		return e.ObjectRef.Resource == "secrets" && e.ObjectRef.Namespace == operator.Namespace
	}
	return got.Where(func(e *audit.Event) bool { return !isHashKey(e) }), got.Where(isHashKey)
}

func hashKeyRow(when string, budget requestCounts, got audit.Events) row {
	return row{
		Name: "hash key of Secrets, " + when, Budget: budget.String(),
		Measured: countRequests(got).String(), OK: countRequests(got) == budget, Notes: describeSome(got),
	}
}
