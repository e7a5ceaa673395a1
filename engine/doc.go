// Package engine runs applications: a kind declares the components of its objects, and the engine
// brings them up in order, corrects drift, protects data and reports.
//
//	kind.Components(object) ──► desired state ──┐
//	cache ──► observed state ───────────────────┴─► plan ──► apply ──► status ──► events
//
// To run your own kind, define a type that embeds the status of an application, write a function
// that returns its components, and call [NewManager] and [Setup].
package engine
