// Package actions does for the callers of the application center what the center has no right to do:
// it changes applications, reads logs and objects, and asks whether Secrets exist. A [Caller] has
// the token of one caller and nothing of the center's, so the API server decides, and its audit
// log shows who it was.
//
//	Restart, Suspend, Resume, Scale, Rollback ──► internal/edit decides, as for the plugin
//	Logs                                      ──► internal/logs, bounded
//	Object                                    ──► read live, then internal/redact
//	Exists                                    ──► metadata of Secrets by name
//
// Everything that goes wrong is an [*Error] that says how to answer; only the end of a context is
// itself.
//
// Safety rule: nothing is written but specs of applications, by the rules of internal/edit. The
// contents of a Secret are not even asked for, and no object, change or error is given out before
// internal/redact has seen it. What the API server refuses, nobody else is asked for.
package actions
