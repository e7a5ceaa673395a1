// Package mariadb is what is known of MariaDB without asking one: how it stores passwords, what
// its versions can, where it listens. Package session asks.
package mariadb

// The ports of a server: the second is for the operator when others have taken all connections.
const (
	Port      = 3306
	AdminPort = 3307
)
