// Package engine runs applications: a kind says which components its objects consist
// of, and the engine brings them up, holds them as declared and reports.
//
//	kind.Components(object) ──► what is wanted ─┐
//	cache ──► what is seen ─────────────────────┴─► plan ──► apply ──► status ──► events
//
// A kind of one's own is a type with the status of an application, a function to
// components, and a call to [Setup].
//
// Safety rule: decisions come from the world as seen now, never from a status written
// earlier; a partial view writes nothing.
package engine
