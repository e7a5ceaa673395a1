package apibudget

import "fmt"

// measureStackTouch changes fields that the operator does not manage, on all objects. The operator watches only the
// metadata of Secrets and ConfigMaps, so it reads each one to see that no used key has changed.
func (s *harness) measureStackTouch() {
	const (
		metadataPatch = `{"metadata":{"labels":{"example.com/touched":"yes"},"annotations":{"example.com/touched":"yes"}}}`
		labelPatch    = `{"metadata":{"labels":{"example.com/touched":"yes"}}}`
	)
	objectsByKind := s.stackObjects()
	s.table.add(s.idleRow(fmt.Sprintf("foreign label and annotation on %d stacks, their children and revisions", *stacks), func() {
		s.patchAll(metadataPatch, objectsByKind...)
	}))
	names := s.stackNames()
	got, key := splitHashKeyRequests(operatorRequests(s.recordRequests(func() {
		s.patchAll(labelPatch, s.objectsNamed(newSecret, names), s.objectsNamed(newConfigMap, names))
	})))
	s.table.add(budgetRow(fmt.Sprintf("foreign label on Secret and ConfigMap of %d stacks, each", *stacks), requestCounts{reads: 2}, got, names, reads))
	s.table.add(hashKeyRow("first update after a restart", requestCounts{}, key))
}
