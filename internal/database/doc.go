// Package database manages the accounts of a database: it keeps the login of the application
// working, rotates passwords without disconnecting clients, and writes the binding Secret.
//
//	reconciler.go  observes, decides and executes steps until none is left
//	prober.go      runs the reconciler in the background
//	secret.go      the Secret with the passwords
//	binding.go     the Secret with the connection details for clients
//	server.go      logins to the server
//
// Safety rule: a password is stored before the server accepts it, and deleted after the server has
// stopped accepting it. Every step is derived from the observed state, so a crash loses nothing.
package database
