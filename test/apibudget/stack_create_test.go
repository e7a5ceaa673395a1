package apibudget

import (
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// stackCreationBudget is what one stack may cost until it is Ready. Its status says that the first
// components were made, that lone is ready, and for migrate, api and web in turn that it
// is done and the next one was made. Its events tell of each component, and of the end.
// The Secret and the ConfigMap are read once each.
var stackCreationBudget = requestCounts{children: childrenPerStack, status: 5, events: 5, reads: 2, finalizers: 1, revisions: 1, healthyMarks: 1}

// measureStackCreation makes all AppStacks: a few one after another, and then the rest.
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
	s.table.add(hashKeyRow("for the first Secret ever", requestCounts{reads: 1, otherWrites: 1}, first))
	s.addStackCreationRow("at once", all[few:], func(names []string) {
		var group sync.WaitGroup
		for _, name := range names {
			group.Go(func() { s.createStack(name) })
		}
		group.Wait()
		s.waitReady(names...)
	})
}

// addStackCreationRow returns what was asked about the key of Secrets.
func (s *harness) addStackCreationRow(how string, names []string, create func([]string)) audit.Events {
	got, key := splitHashKeyRequests(operatorRequests(s.recordRequests(func() { create(names) })))
	name := fmt.Sprintf("create %d stacks %s, each", len(names), how)
	s.table.add(budgetRow(name, stackCreationBudget, got, names, append(exactCategories, reads)...))
	return key
}

// splitHashKeyRequests sets apart what is about the key that Secrets are hashed with, which belongs
// to no application.
func splitHashKeyRequests(got audit.Events) (rest, key audit.Events) {
	isHashKey := func(e *audit.Event) bool {
		return e.ObjectRef.Resource == "secrets" && e.ObjectRef.Namespace == operator.Namespace
	}
	return got.Where(func(e *audit.Event) bool { return !isHashKey(e) }), got.Where(isHashKey)
}

func hashKeyRow(when string, budget requestCounts, got audit.Events) row {
	return row{
		Name: "the key of Secrets, " + when, Budget: budget.String(),
		Measured: countRequests(got).String(), OK: countRequests(got) == budget, Notes: describeSome(got),
	}
}
