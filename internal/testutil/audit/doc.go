// Package audit reads the audit log of a test's API server, the only source that shows the actual requests of each user.
//
// The log is a file with one JSON event per line that grows while it is read. A test marks a position, does something,
// and reads the new events:
//
//	log, err := audit.Open(plane.AuditLog())
//	before, err := log.Mark(ctx, plane.Config)
//	...
//	events, err := log.Since(ctx, plane.Config, before)
//	t.Log(events.Writes().Count())
//
// Safety rule: an answered request is never missed. [Log.Mark] returns once its own request is in the file, and the API
// server logs a request before it completes the response. [Log.Since] also waits for the responses to deletions, whose
// effect is visible before they are logged.
package audit
