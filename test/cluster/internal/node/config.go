// Package node runs a cluster in the background: a control plane alone, or one with
// a node inside network, mount and pid namespaces of its own.
//
//	up ── starts ──► init (pid 1 of the namespaces) ── starts ──► supervise ──► all parts
//	up ── starts ──────────── level control-plane ──────────────► supervise ──► etcd, API server, ...
//	down ── kills ─► init or supervise; the kernel takes the rest along
//
// Safety rule: nothing is changed on the machine outside the namespaces but cgroup
// folders and loop devices, and both are found again from the data folder alone. So
// down works after any crash, without a record of what up had done.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

// Config is all that a cluster needs to know. It lies in its data folder.
type Config struct {
	Dir    string // data folder, absolute
	Level  build.Level
	Port   int      // of the API server on 127.0.0.1; a control plane takes two more
	Audit  bool     // write Dir/audit.log
	Assets string   // folder of the programs
	Images []string // archives to import

	hostPath string // Dir as the host knows it
}

const (
	nodeName     = "node1"
	bridge       = "holdfast0"
	podRange     = "10.88.0.0/16"
	bridgeMAC    = "02:00:0a:58:00:01"
	nodeAddress  = "10.88.0.1" // of the bridge, and so of the node
	serviceRange = "10.96.0.0/12"
	dnsAddress   = "10.96.0.10"
	innerAPIPort = 6443

	// nodeDataDir is where the node sees its data folder: a short path, because the path
	// of a Unix socket may have 107 characters.
	nodeDataDir = "/run/holdfast"
)

func (c Config) path(name string) string { return filepath.Join(c.Dir, name) }

// Kubeconfig is the file that kubectl uses from the host. It appears when the
// cluster is ready.
func (c Config) Kubeconfig() string { return c.path("kubeconfig") }

// Volumes is the folder of the files behind the volumes.
func (c Config) Volumes() string { return c.path("volumes") }

// cgroup names the folder that everything of the node's pods is below, in every
// hierarchy. It follows from the data folder.
func (c Config) cgroup() string { return "holdfast-" + build.Key(c.hostDir()) }

func (c Config) hostDir() string {
	if c.hostPath != "" {
		return c.hostPath
	}
	return c.Dir
}

// configFile is the first file in a data folder and the last to go.
const configFile = "cluster.json"

// save claims the folder: of two that start at once, one gets it.
func (c Config) save() error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path(configFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s holds another cluster or the rest of one: take it down first", c.Dir)
	}
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(f)
	encoder.SetIndent("", "  ")
	return errors.Join(encoder.Encode(c), f.Close())
}

// Load reads the configuration of the cluster in dir.
func Load(dir string) (Config, error) {
	c, err := readConfig(dir)
	if errors.Is(err, os.ErrNotExist) {
		return c, fmt.Errorf("no cluster in %s: start one first", dir)
	}
	return c, err
}

// Import makes the image in an archive known to the node, without a registry.
func (c Config) Import(ctx context.Context, archive string) error {
	out, err := exec.CommandContext(ctx, filepath.Join(c.Assets, "ctr"), "--address", c.path("containerd.sock"),
		"--namespace=k8s.io", "images", "import", archive).CombinedOutput()
	if err != nil {
		return fmt.Errorf("import image %s: %w: %s", archive, err, out)
	}
	return nil
}

func readConfig(dir string) (Config, error) {
	var c Config
	data, err := os.ReadFile(filepath.Join(dir, configFile))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return c, fmt.Errorf("read %s/%s: %w", dir, configFile, err)
	}
	// The node reads it under another path than the host.
	c.hostPath, c.Dir = c.Dir, dir
	return c, nil
}
