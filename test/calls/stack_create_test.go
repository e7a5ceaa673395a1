package calls

import (
	"fmt"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/testutil/audit"
	"github.com/holdfast-dev/holdfast/internal/testutil/operator"
)

// ofStack is what one stack may cost until it is Ready. Its status says that the first
// components were made, that lone is ready, and for migrate, api and web in turn that it
// is done and the next one was made. Its events tell of each component, and of the end.
// The Secret and the ConfigMap are read once each.
var ofStack = tally{children: childrenOfStack, status: 5, events: 5, reads: 2, finalizers: 1, revisions: 1, marks: 1}

// createStacks makes all AppStacks: a few one after another, and then the rest.
func (s *stage) createStacks() {
	all := s.stackNames()
	few := min(20, len(all)/10)
	var group sync.WaitGroup
	for _, name := range all {
		group.Go(func() { s.newSources(name) })
	}
	group.Wait()
	first := s.createdStacks("one after another", all[:few], func(names []string) {
		for _, name := range names {
			s.newStack(name)
			s.waitReady(name)
		}
	})
	s.table.add(keyRow("for the first Secret ever", tally{reads: 1, other: 1}, first))
	s.createdStacks("at once", all[few:], func(names []string) {
		var group sync.WaitGroup
		for _, name := range names {
			group.Go(func() { s.newStack(name) })
		}
		group.Wait()
		s.waitReady(names...)
	})
}

// createdStacks returns what was asked about the key of Secrets.
func (s *stage) createdStacks(how string, names []string, create func([]string)) audit.Events {
	got, key := withoutKey(ours(s.requests(func() { create(names) })))
	name := fmt.Sprintf("create %d stacks %s, each", len(names), how)
	s.table.add(spent(name, ofStack, got, names, append(necessary, reads)...))
	return key
}

// withoutKey sets apart what is about the key that Secrets are hashed with, which belongs
// to no application.
func withoutKey(got audit.Events) (rest, key audit.Events) {
	about := func(e *audit.Event) bool {
		return e.ObjectRef.Resource == "secrets" && e.ObjectRef.Namespace == operator.Namespace
	}
	return got.Where(func(e *audit.Event) bool { return !about(e) }), got.Where(about)
}

func keyRow(when string, budget tally, got audit.Events) row {
	return row{
		Name: "the key of Secrets, " + when, Budget: budget.String(),
		Measured: count(got).String(), OK: count(got) == budget, Notes: sample(got),
	}
}
