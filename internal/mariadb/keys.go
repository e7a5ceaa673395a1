package mariadb

// The keys of the Secret with the credentials of a database.
const (
	KeyRootPassword = "root-password"
	KeyPassword     = "password"
)

// HashKey is where the hash of a password is, for those who need not know more.
func HashKey(key string) string { return key + "-hash" }
