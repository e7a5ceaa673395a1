// Package simulate runs the operator's executor on a copy of the objects of an application until there
// are no more writes. The executor writes to the copy, and an [APIServer] returns the result of each
// write. Between passes the copy simulates a healthy cluster: pods become ready, jobs complete, volumes
// grow, databases accept logins.
//
//	copy ──► execute.Run ──► writes to the copy ───┐
//	 ▲                                             │
//	 ├── with writes: next pass ◄──────────────────┤
//	 └── without writes: controllers advance ◄─────┘
//
// Safety rule: it changes only the copy, neither the cluster nor the input.
package simulate
