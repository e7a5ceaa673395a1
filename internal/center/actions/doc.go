// Package actions runs operations that the application center has no permission for: it changes
// applications, reads logs and objects, and checks whether Secrets exist. A [Caller] uses the token of
// one user and no credentials of the center, so the API server authorizes every request, and its audit
// log contains the user.
//
//	Restart, Suspend, Resume, Scale, Rollback ──► internal/edit, shared with the plugin
//	Logs                                      ──► internal/logs, rate-limited
//	Object                                    ──► get, then internal/redact
//	CheckSecrets                              ──► metadata of Secrets by name
//
// Every error is an [*Error] with a reason and an HTTP status, except the error of a canceled context.
//
// Safety rule: only specs of applications are written, by the rules of internal/edit. The data of a
// Secret is never requested. Every object, change and error passes internal/redact before it is
// returned. A request that the API server rejects is never repeated with other credentials.
package actions
