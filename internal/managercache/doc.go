// Package managercache is what a manager of the engine reads: the kinds that are watched, how much of
// their objects is kept, the indexes, and kinds that a cluster may not have.
package managercache
