package mariadb

import _ "embed"

// ResetScript makes a server that does not run take the password of root whose hash is in a file:
// for when nobody knows what it has. It is run by sh, in the image of the server, with
//
//	HASH_FILE  where the hash is
//	RESET      what asked for it: each is done once, however often the pod is started
//
//go:embed reset.sh
var ResetScript string
