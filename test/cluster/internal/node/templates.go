package node

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"text/template"

	"github.com/holdfast-dev/holdfast/test/cluster/internal/build"
)

var (
	//go:embed files/kubelet.yaml
	kubeletConfig string
	//go:embed files/containerd.toml
	containerdConfig string
	//go:embed files/cni.conflist
	cniConfig string
	//go:embed files/addons.yaml
	addons string
)

// render writes a file in the data directory from its template.
func (s *supervisor) render(name, text string) error {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]string{
		"Dir":          s.Dir,
		"Assets":       s.Assets,
		"Cgroup":       s.cgroup(),
		"Bridge":       bridge,
		"PodRange":     podRange,
		"DNSAddress":   dnsAddress,
		"CNIPlugins":   cniPlugins,
		"PauseImage":   build.PauseImage,
		"CoreDNSImage": build.CoreDNSImage,
	})
	if err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return os.WriteFile(s.path(name), out.Bytes(), 0o644)
}
