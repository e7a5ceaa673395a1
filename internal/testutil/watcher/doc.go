// Package watcher is a test's own eye on the cluster: it watches chosen resources with
// its own connections and writes down every change in the order it was seen. It shares
// nothing with the program under test, so it also sees what that program misses.
//
//	list + watch per resource --> recorder --> State: events so far, live objects
//	                                 |
//	                                 +-------> wakes every WaitFor
//
// A test asks for the present ([State.Live]), the past ([State.History], [State.First])
// or waits for the future ([Watcher.WaitFor]).
//
// Each resource has a watch of its own: the changes of one are in the order in which
// they happened, those of two are in the order in which they were seen. A Deployment may
// be seen ready before its last pod is.
//
// Safety rule: no change is lost silently. The watch resumes after a disconnect; when
// the API server no longer knows the place to resume from, everything is listed again
// and the differences are recorded as events that say so ([Event.Listed]).
package watcher
