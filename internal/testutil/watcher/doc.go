// Package watcher is an independent watch for tests: it watches resources with its own connections and records every
// change in the order of observation. It shares nothing with the program under test, so it also sees what that program
// misses.
//
//	list + watch per resource --> recorder --> State: events so far, live objects
//	                                 |
//	                                 +-------> wakes every WaitFor
//
// A test reads the current state ([State.Live]) or the history ([State.History], [State.FirstObserved]), or waits for a
// state ([Watcher.WaitFor]).
//
// Each resource has its own watch: changes of one resource are in the order in which they happened, changes of different
// resources are in the order of observation. A Deployment can be observed as ready before its last pod is.
//
// Safety rule: no change is lost silently. The watch resumes after a disconnect; if it cannot be resumed, all objects
// are listed again and the differences are recorded as events with [Event.FromList].
package watcher
