// Package session speaks to one MariaDB server: who may log in with which passwords, and what
// the server says about itself.
//
//	login.go     one connection that gives up after a while
//	trouble.go   why there is none
//	account.go   an account, its schema and its passwords
//
// Statements have hashes: nothing has to be quoted, and no password can be read in a log of the server.
// Connections are not encrypted: whoever can listen between operator and pod, and change what they hear, is
// not kept out by this.
package session
