// Package apply is the only code that writes children: server-side apply with a
// precondition on every call, nothing when nothing would change.
//
//	not in the cache ──► create-only apply ── 201 ──► ours
//	                          └─ 409 ──► one live read ──► ours? restore : refuse
//	in the cache ──► ours? ── no ──► refuse, no call
//	                  └─ yes ──► as we hold it? ── yes ──► no call
//	                                  └─ no ──► apply with uid and resourceVersion;
//	                                            what shuts ours out is taken over first
//
// Safety rule: an object that is not ours is never written. Every write carries the
// uid and resourceVersion it was decided on, or the promise that nothing is there.
package apply
