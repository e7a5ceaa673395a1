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

// cniPlugins is where Debian puts them.
const cniPlugins = "/usr/lib/cni"

// requiredPackages lists what a node needs of the host, to be built and to run: a file or
// command, and the Debian package that has it.
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

// CheckRequirements finds out before anything is built or started what would fail halfway.
func CheckRequirements(level build.Level) error {
	if level == build.ControlPlane {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: it makes namespaces, mounts and loop devices (--level=control-plane does not)")
	}
	var missing []string
	for _, p := range requiredPackages {
		if !isInstalled(p[0]) {
			missing = append(missing, p[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the node needs more of this machine: apt-get install %s", strings.Join(missing, " "))
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
