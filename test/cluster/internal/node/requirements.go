package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

// cniPlugins is the directory of the Debian package.
const cniPlugins = "/usr/lib/cni"

// requiredPackages are the files or commands that a node needs from the host, with their Debian packages.
var requiredPackages = [][2]string{
	{"gcc", "gcc libc6-dev"},
	{"pkg-config", "pkg-config"},
	{"/usr/include/seccomp.h", "libseccomp-dev"},
	{"mmdebstrap", "mmdebstrap"},
	{"busybox", "busybox-static"},
	{cniPlugins + "/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"losetup", "mount"},
	{"mkfs.xfs", "xfsprogs"},
}

// CheckRequirements checks the requirements before anything is built or started.
func CheckRequirements(level build.Level) error {
	if level == build.ControlPlane {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root to create namespaces, mounts and loop devices (--level=control-plane does not)")
	}
	var missing []string
	for _, p := range requiredPackages {
		if !isInstalled(p[0]) {
			missing = append(missing, p[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing packages: apt-get install %s", strings.Join(missing, " "))
	}
	return nil
}

func isInstalled(name string) bool {
	if filepath.IsAbs(name) {
		_, err := os.Stat(name)
		return err == nil
	}
	_, err := exec.LookPath(name)
	return err == nil
}
