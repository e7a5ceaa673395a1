// Package node runs a cluster in the background: only a control plane, or also a node in its own network, mount and PID
// namespaces.
//
//	up ── starts ──► init (PID 1 of the namespaces) ── starts ──► supervise ──► all components
//	up ── starts ──────────── level control-plane ──────────────► supervise ──► etcd, API server, ...
//	down ── kills ─► init or supervise; the kernel kills all children
//
// Safety rule: outside of the namespaces, only cgroups and loop devices are created, and both are found by the data
// directory. Therefore down works after any crash.
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

// Config is the configuration of a cluster. It is stored in the data directory.
type Config struct {
	Dir    string // data directory, absolute
	Level  build.Level
	Port   int      // of the API server on 127.0.0.1; a control plane uses two more
	Audit  bool     // write Dir/audit.log
	Assets string   // directory of the programs
	Images []string // archives to import

	hostPath string // Dir on the host
}

const (
	nodeName     = "node1"
	bridge       = "holdfast0"
	podRange     = "10.88.0.0/16"
	bridgeMAC    = "02:00:0a:58:00:01"
	nodeAddress  = "10.88.0.1" // address of the bridge and of the node
	serviceRange = "10.96.0.0/12"
	dnsAddress   = "10.96.0.10"
	innerAPIPort = 6443

	// nodeDataDir is the data directory in the node: a short path, because the path of a Unix socket is limited to 107
	// characters.
	nodeDataDir = "/run/holdfast"
)

func (c Config) path(name string) string { return filepath.Join(c.Dir, name) }

// Kubeconfig returns the path of the kubeconfig for the host, which exists when the cluster is ready.
func (c Config) Kubeconfig() string { return c.path("kubeconfig") }

// Volumes returns the directory with the backing files of volumes.
func (c Config) Volumes() string { return c.path("volumes") }

// cgroup returns the name of the cgroup of the node in every hierarchy. It is derived from the data directory.
func (c Config) cgroup() string { return "holdfast-" + build.Key(c.hostDir()) }

func (c Config) hostDir() string {
	if c.hostPath != "" {
		return c.hostPath
	}
	return c.Dir
}

// configFile is created first in a data directory and deleted last.
const configFile = "cluster.json"

// save claims the directory: if two clusters start concurrently, only one succeeds.
func (c Config) save() error {
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(c.path(configFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s contains another cluster or its leftovers: run down first", c.Dir)
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

// Import imports the image in an archive into the node, without a registry.
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
	// The path in the node differs from that on the host.
	c.hostPath, c.Dir = c.Dir, dir
	return c, nil
}
