// Package reconcile is the reconcile loop of all kinds of applications.
//
//	Reconcile(key) ──► execute.Run ──► status ──► events ──► requeue
//
// Package execute observes, plans and writes children. This package decides when to run it, derives
// the status of the application from its result, and reports.
package reconcile
