// Package apply is the only package that writes children. It uses server-side apply with a
// precondition on every request, and sends no request if nothing would change.
//
//	not in the cache ──► create-only apply ── 201 ──► created
//	                          └─ 409 ──► one live read ──► ours? restore : reject
//	in the cache ──► ours? ── no ──► reject, no request
//	                  └─ yes ──► in sync? ── yes ──► no request
//	                                  └─ no ──► apply with uid and resourceVersion; a conflicting
//	                                            field of another manager: reject
//
// Safety rule: objects of other owners are never written. Every write carries the uid and
// resourceVersion of the observed object, or the condition that none exists.
package apply
