// Package execute reconciles one application once: it observes the application and its children,
// plans with internal/rollout, and carries the plan out.
//
//	Observe ──► Plan ──► Execute          Scope holds the state
//	cache, databases     Writer
//
// The operator runs it with a [Writer] that changes the cluster. `kubectl holdfast plan` runs the
// same code with a Writer that records the changes, so a plan cannot differ from a reconcile.
//
// Safety rule: decisions come from the state observed now, never from a status that was written
// earlier. Nothing is written if a read failed.
package execute
