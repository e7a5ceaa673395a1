package mariadb

import _ "embed"

// ResetScript sets the password of root to the one whose hash is in a file, on the volume of a
// stopped server. It resets a password that is lost. It is run by sh in the image of the server,
// with
//
//	HASH_FILE  path of the hash
//	RESET      value of the request: each value is handled once, even if the pod restarts
//
//go:embed reset.sh
var ResetScript string
