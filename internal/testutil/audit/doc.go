// Package audit reads the audit log of a test's API server: who asked for what, and
// what came of it. It is the one witness that does not depend on what a program says
// about itself.
//
// The log is a file with one JSON event per line that grows while it is read. A test
// marks a place in it, does something, and looks at what was written since:
//
//	log, err := audit.Open(plane.AuditLog())
//	before, err := log.Mark(ctx, plane.Config)
//	...
//	events, err := log.Since(ctx, plane.Config, before)
//	t.Log(events.Writes().Count())
//
// Safety rule: an answered request is never missed. [Log.Mark] is a fence: it returns
// once its own request is in the file, and the API server writes the line of a request
// before it ends the answer. [Log.Since] also waits for the answers to deletions, which
// others see before they are given.
package audit
