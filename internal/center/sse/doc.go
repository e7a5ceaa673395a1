// Package sse distributes changes to many clients, each over one stream of server-sent events.
//
//	                    ┌─ entries: the newest frame of each key ─── snapshot ─┐
//	Publish ─► encode ─►│                                                      ├─► client
//	           (once)   ├─ ring: the last frames, by number ─────── resume ────┤
//	                    └─ queue of each client, one frame per key ─ deltas ───┘
//
// A topic is a set of entries by key. A client first receives a snapshot, in parts, of the entries that it
// is allowed to see, and then frames with increasing sequence numbers:
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
// Part 0 starts a new snapshot. An entry without a body was removed. "reset" means that permissions have
// changed and a snapshot follows. "reconnect" means that the client must reconnect. The id is valid only for
// the same topics: a client that requests other topics must not send it.
//
// Safety rule: an entry is sent only to clients that are allowed to see one of its scopes at that time. An
// entry without scopes is never sent. A slow client never blocks others: it is disconnected when its queue
// is full, and gets a new snapshot when it reconnects.
package sse
