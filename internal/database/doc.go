// Package database keeps the accounts of a database right: that its application gets in, that
// passwords change without cutting anybody off, and that those who use it are told.
//
//	keeper.go    one visit: look, decide, do, until there is nothing left to do now
//	stored.go    the Secret with the passwords
//	binding.go   the Secret that tells others how to get in
//	server.go    what is asked of the server
//
// Safety rule: a password is stored before the server learns it, and struck out after the server
// has forgotten it. Everything else follows from what is found: there is no memory that a
// crash could take away.
package database
