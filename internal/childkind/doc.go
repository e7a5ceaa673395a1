// Package childkind lists the kinds of children and the cache indexes for them. The cache of the operator,
// its executor and `plan` share it.
package childkind
