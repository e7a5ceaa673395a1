// Package session talks to a MariaDB server: it logs in, manages accounts and reads the version.
//
//	login.go    a connection with timeouts
//	guard.go    passes on only packets that a MariaDB server sends
//	packet.go   the layout of these packets
//	errors.go   kinds of connection errors
//	account.go  an account, its schema and its passwords
//
// Statements contain password hashes, so no password appears in logs of the server. Connections are
// not encrypted: they are not protected from an attacker who controls the network between operator
// and pod.
package session
