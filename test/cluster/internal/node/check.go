package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

// cniPlugins is where Debian puts them.
const cniPlugins = "/usr/lib/cni"

// packages lists what a node needs of the host: a file or command, and the Debian
// package that has it.
var packages = [][2]string{
	{cniPlugins + "/bridge", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"conntrack", "conntrack"},
	{"ip", "iproute2"},
	{"losetup", "mount"},
	{"mkfs.xfs", "xfsprogs"},
}

// check finds out before anything is started what would fail halfway.
func check(c Config) error {
	if c.Level == build.ControlPlane {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root: it makes namespaces, mounts and loop devices (--level=control-plane does not)")
	}
	var missing []string
	for _, p := range packages {
		if _, err := exec.LookPath(p[0]); err != nil && !slices.Contains(missing, p[1]) {
			missing = append(missing, p[1])
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the node needs more of this machine: apt-get install %s", strings.Join(missing, " "))
	}
	return nil
}
