// Package mariadb has facts about MariaDB: password hashes, versions and ports. Package session
// connects to servers.
package mariadb

// Ports of a server. The admin port is for the operator if all connections are used.
const (
	Port      = 3306
	AdminPort = 3307
)
