// Package managercache is the cache of a manager of the engine: watched kinds, cached fields,
// indexes, and kinds that a cluster may not serve.
package managercache
