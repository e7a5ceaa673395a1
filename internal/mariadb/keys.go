package mariadb

// Keys of the Secret with the credentials of a database.
const (
	KeyRootPassword = "root-password"
	KeyPassword     = "password"
	KeyCertificate  = "tls.crt"
	KeyPrivateKey   = "tls.key"
	KeyCA           = "ca.crt"
)

// HashKey is the key of the hash of a password, for pods that must not read the password.
func HashKey(key string) string { return key + "-hash" }
