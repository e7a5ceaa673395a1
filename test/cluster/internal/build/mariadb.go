package build

import (
	"context"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// mariadbImage is the server of a Debian release with a custom entrypoint: bookworm has 10.11, trixie 11.8, so that
// tests cover major upgrades with real servers.
func mariadbImage(name, release string, aliases ...string) image {
	const folder = "images/mariadb"
	return image{
		name:    name,
		aliases: aliases,
		inputs:  []string{folder},
		recipe:  strings.Join(mmdebstrapArgs(""), " ") + release,
		config: v1.Config{
			Entrypoint:   []string{"docker-entrypoint.sh"},
			Cmd:          []string{"mariadbd"},
			Env:          []string{defaultPath, "LANG=C.UTF-8"},
			User:         "999:999",
			ExposedPorts: map[string]struct{}{"3306/tcp": {}},
			Volumes:      map[string]struct{}{"/var/lib/mysql": {}},
		},
		writeLayer: func(ctx context.Context, b *Builder, tarFile string) error {
			args := append(mmdebstrapArgs(filepath.Join(b.Source, folder)), release, tarFile)
			// Mounts are in a separate namespace and files next to the image, so that a killed build leaves nothing on
			// the machine.
			env := []string{"TMPDIR=" + filepath.Dir(tarFile)}
			return runCommand(ctx, b.Source, env, "unshare", append([]string{"--mount", "mmdebstrap"}, args...)...)
		},
	}
}

// removedPaths are not needed at runtime and take more than half of the size.
var removedPaths = []string{
	"/usr/share/doc", "/usr/share/man", "/usr/share/info", "/usr/share/locale", "/usr/share/zoneinfo",
	"/usr/share/perl*", "/usr/lib/*/perl*", "/usr/bin/perl*", "/usr/lib/*/gconv",
	"/usr/lib/apt", "/var/lib/apt", "/var/lib/dpkg", "/var/cache/*", "/var/log/*",
}

func mmdebstrapArgs(folder string) []string {
	remove := make([]string, len(removedPaths))
	for i, path := range removedPaths {
		remove[i] = `"$1"` + path
	}
	return []string{
		"--quiet", "--variant=minbase",
		"--skip=cleanup/run", // the official image has the directory of the socket
		"--include=mariadb-server-core,mariadb-client,mariadb-backup",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		// The user of the official image, which mariadb-server-core does not create.
		`--customize-hook=echo "mysql:x:999:999::/var/lib/mysql:/usr/sbin/nologin" >> "$1"/etc/passwd; echo "mysql:x:999:" >> "$1"/etc/group`,
		`--customize-hook=for d in /var/lib/mysql /run/mysqld; do mkdir -p "$1$d" && chown 999:999 "$1$d"; done`,
		"--customize-hook=copy-in " + filepath.Join(folder, "docker-entrypoint.sh") + " " + filepath.Join(folder, "healthcheck.sh") + " /usr/local/bin",
		`--customize-hook=chmod 755 "$1"/usr/local/bin/*`,
		"--customize-hook=rm -rf " + strings.Join(remove, " "),
	}
}
