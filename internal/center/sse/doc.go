// Package sse sends what changes to many clients at once, each over one stream of
// server-sent events.
//
//	                    ┌─ entries: the newest frame of each key ─── snapshot ─┐
//	Publish ─► encode ─►│                                                      ├─► client
//	           (once)   ├─ ring: the last frames, by number ─────── resume ────┤
//	                    └─ queue of each client, one frame per key ─ deltas ───┘
//
// A topic is a set of entries by key. A client is sent the entries of its topics that it may
// see, as a snapshot in parts, and from then on frames with rising numbers:
//
//	retry: 1734
//
//	id:
//	event: snapshot
//	data: {"part":0,"complete":false,"entries":[{"topic":…,"key":…,"event":…,"body":…},…]}
//
//	id: REPLICA-41
//	event: snapshot
//	data: {"part":1,"complete":true,"entries":[…]}
//
//	id: REPLICA-42
//	event: change
//	data: {"topic":…,"key":…,"event":"change","body":{…}}
//
//	id: REPLICA-43
//	event: change
//	data: {"topic":…,"key":…,"event":"change"}
//
// Part 0 starts over; what has no body is gone. "reset" says that rights have changed and a
// snapshot follows, "reconnect" that the client has to connect again. The id belongs to the topics
// that were asked for: a client that asks for others asks without it.
//
// Safety rule: an entry is sent to those who may see one of its scopes now, and an entry
// without a scope to nobody. Nobody waits for a client: what one does not take in time is
// dropped, and it comes back for the whole.
package sse
