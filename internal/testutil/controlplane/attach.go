package controlplane

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	// SharedEnv is the environment variable with the directory of a control plane that several test packages share.
	SharedEnv       = "HOLDFAST_SHARED_PLANE"
	adminKubeconfig = "admin.kubeconfig"
)

// Share allows other processes to [Attach] to the control plane through its directory.
func (p *Plane) Share() error {
	return p.WriteKubeconfig(adminKubeconfig, p.Config.Host, "admin", "system:masters")
}

// Attach returns the control plane that another process shares in dir. Its processes are nil here, and Stop leaves them
// running.
func Attach(dir string) (*Plane, error) {
	p := &Plane{Options: Options{Dir: dir, Audit: true}, releasePorts: func() {}}
	var err error
	if p.Config, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, adminKubeconfig)); err != nil {
		return nil, fmt.Errorf("attach to the control plane in %s: %w", dir, err)
	}
	p.Config.QPS = -1
	if p.ca, err = openAuthority(p.path("pki")); err != nil {
		return nil, fmt.Errorf("attach to the control plane in %s: %w", dir, err)
	}
	return p, nil
}
