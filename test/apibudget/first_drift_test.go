package apibudget

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workloadsPerStack is the number of workloads in a stack.
const workloadsPerStack = 4

// measureFirstDriftAfterRestart changes every application for the first time after a restart. The initial lists may
// be stale, so the operator reads the generations of the application and of its workloads once. Another read finds the
// field manager.
func (s *harness) measureFirstDriftAfterRestart() {
	const foreignPatch = `{"metadata":{"annotations":{"apps.holdfast.dev/applied-hash":"other"}}}`
	apps, stacks := s.appNames(), s.stackNames()
	got := operatorRequests(s.recordRequests(func() { s.patchAll(foreignPatch, s.objectsNamed(newService, apps)) }))
	s.table.add(budgetRow(fmt.Sprintf("first drift of %d apps after a restart, each", len(apps)),
		requestCounts{children: 1, status: 1, events: 1, reads: 3}, got, apps, children, reads))
	var services []client.Object
	for _, name := range stacks {
		services = append(services, newService(s.objectMeta(name+"-api")))
	}
	got = operatorRequests(s.recordRequests(func() { s.patchAll(foreignPatch, services) }))
	s.table.add(budgetRow(fmt.Sprintf("first drift of %d stacks after a restart, each", len(stacks)),
		requestCounts{children: 1, status: 1, events: 1, reads: 2 + workloadsPerStack}, got, stacks, children, reads))
}
