package calls

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// workloadsOfStack are what runs pods in a stack of these rows.
const workloadsOfStack = 4

// confirm lets something happen to every application for the first time after a restart: its
// lists may have been of the past, so its own generation and those of its workloads are read,
// once.
func (s *stage) confirm() {
	const other = `{"metadata":{"annotations":{"apps.holdfast.dev/applied":"other"}}}`
	apps, stacks := s.names(), s.stackNames()
	got := ours(s.requests(func() { s.touchAll(other, s.each(aService, apps)) }))
	s.table.add(spent(fmt.Sprintf("first drift of %d apps after a restart, each", len(apps)),
		tally{children: 1, reads: 2}, got, apps, children, reads))
	var services []client.Object
	for _, name := range stacks {
		services = append(services, aService(s.meta(name+"-api")))
	}
	got = ours(s.requests(func() { s.touchAll(other, services) }))
	s.table.add(spent(fmt.Sprintf("first drift of %d stacks after a restart, each", len(stacks)),
		tally{children: 1, reads: 1 + workloadsOfStack}, got, stacks, children, reads))
}
