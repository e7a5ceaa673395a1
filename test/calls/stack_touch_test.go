package calls

import "fmt"

// touchStacks changes on everything what nobody declared. Of a Secret and a ConfigMap the
// operator knows only that it changed: a read of each tells that no pod takes what did.
func (s *stage) touchStacks() {
	const (
		anything = `{"metadata":{"labels":{"example.com/touched":"yes"},"annotations":{"example.com/touched":"yes"}}}`
		label    = `{"metadata":{"labels":{"example.com/touched":"yes"}}}`
	)
	parts := s.stackParts()
	s.table.add(s.silent(fmt.Sprintf("foreign label and annotation on %d stacks, their children and revisions", *stacks), func() {
		s.touchAll(anything, parts...)
	}))
	names := s.stackNames()
	got, key := withoutKey(ours(s.requests(func() {
		s.touchAll(label, s.each(aSecret, names), s.each(aConfigMap, names))
	})))
	s.table.add(spent(fmt.Sprintf("foreign label on Secret and ConfigMap of %d stacks, each", *stacks), tally{reads: 2}, got, names, reads))
	s.table.add(keyRow("for the first Secret after a restart", tally{reads: 1}, key))
}
