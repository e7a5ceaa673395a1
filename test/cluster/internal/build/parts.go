package build

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// Level is the extent of a cluster.
type Level string

// The two levels: only a control plane, or also a node that runs real pods.
const (
	ControlPlane Level = "control-plane"
	Node         Level = "node"
)

// ParseLevel returns the level with this name.
func ParseLevel(s string) (Level, error) {
	if l := Level(s); l == ControlPlane || l == Node {
		return l, nil
	}
	return "", fmt.Errorf("unknown level %q: use %s or %s", s, ControlPlane, Node)
}

// part is a set of programs from one pinned module (parts/<name>/go.mod).
type part struct {
	name     string
	module   string            // its version is that of the part
	programs map[string]string // name to package
	tags     string
	cgo      bool
}

const kubernetesModule = "k8s.io/kubernetes"

func parts(level Level) []part {
	kubernetes := part{name: "kubernetes", module: kubernetesModule, programs: map[string]string{}}
	programs := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"}
	if level == Node {
		programs = append(programs, "kubelet", "kube-proxy")
	}
	for _, p := range programs {
		kubernetes.programs[p] = kubernetesModule + "/cmd/" + p
	}
	all := []part{kubernetes, {
		name: "etcd", module: "go.etcd.io/etcd/server/v3",
		programs: map[string]string{"etcd": "go.etcd.io/etcd/server/v3"},
	}}
	if level == ControlPlane {
		return all
	}
	const containerd = "github.com/containerd/containerd/v2"
	return append(all, part{
		name: "containerd", module: containerd, tags: "no_btrfs no_zfs",
		programs: map[string]string{
			"containerd":              containerd + "/cmd/containerd",
			"containerd-shim-runc-v2": containerd + "/cmd/containerd-shim-runc-v2",
			"ctr":                     containerd + "/cmd/ctr",
		},
	}, part{
		name: "runc", module: "github.com/opencontainers/runc", tags: "seccomp", cgo: true,
		programs: map[string]string{"runc": "github.com/opencontainers/runc"},
	})
}

// Assets builds the programs of a level and returns a directory with all of them.
func (b *Builder) Assets(ctx context.Context, level Level) (string, error) {
	var dirs []string
	for _, p := range parts(level) {
		dir, err := b.buildPart(ctx, p)
		if err != nil {
			return "", err
		}
		dirs = append(dirs, dir)
	}
	return b.linkPrograms(dirs)
}

// buildPart builds the missing programs of p and returns their directory.
func (b *Builder) buildPart(ctx context.Context, p part) (string, error) {
	module := filepath.Join(b.Source, "parts", p.name)
	version, err := pinnedVersion(module, p.module)
	if err != nil {
		return "", err
	}
	if v := "v" + strings.TrimPrefix(b.Kubernetes, "v"); p.module == kubernetesModule && b.Kubernetes != "" && v != version {
		version = v
		if module, err = b.kubernetesModuleFor(ctx, module, version); err != nil {
			return "", err
		}
	}
	sources, err := digest(module)
	if err != nil {
		return "", err
	}
	flags := p.flags(version)
	dir := filepath.Join(b.Cache, "parts", fmt.Sprintf("%s-%s-%s", p.name, version, Key(append(flags, sources)...)))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	missing := func() bool { return len(p.missing(dir)) > 0 }
	return dir, b.buildOnce(missing, func() error {
		names := p.missing(dir)
		what := fmt.Sprintf("building %s %s (%s)", p.name, version, strings.Join(names, ", "))
		return b.withProgress(what, func() error { return compile(ctx, p, module, dir, flags, names) })
	})
}

// missing returns the programs that are not in dir yet.
func (p part) missing(dir string) []string {
	var names []string
	for name := range p.programs {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (p part) flags(version string) []string {
	ldflags := "-s -w"
	if p.module == kubernetesModule {
		// Without these flags the version is v0.0.0-master, and version checks fail.
		major, minor, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
		minor, _, _ = strings.Cut(minor, ".")
		const pkg = "k8s.io/component-base/version."
		ldflags += fmt.Sprintf(" -X %sgitVersion=%s -X %sgitMajor=%s -X %sgitMinor=%s", pkg, version, pkg, major, pkg, minor)
	}
	return []string{"-trimpath", "-buildvcs=false", "-tags=" + p.tags, "-ldflags=" + ldflags}
}

func compile(ctx context.Context, p part, module, dir string, flags, names []string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "."+p.name+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	cgo := "CGO_ENABLED=0"
	if p.cgo {
		cgo = "CGO_ENABLED=1"
	}
	args := append(append([]string{"build"}, flags...), "-o", tmp+"/")
	for _, name := range names {
		args = append(args, p.programs[name])
	}
	if err := runCommand(ctx, module, []string{cgo, "GOWORK=off", "GOFLAGS="}, "go", args...); err != nil {
		return err
	}
	for _, name := range names {
		built := filepath.Base(strings.TrimSuffix(p.programs[name], "/v3")) // the name chosen by go build
		if err := os.Rename(filepath.Join(tmp, built), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// linkPrograms links the programs of several directories into one, named after them.
func (b *Builder) linkPrograms(dirs []string) (string, error) {
	dir := filepath.Join(b.Cache, "assets", Key(dirs...))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, d := range dirs {
		programs, err := os.ReadDir(d)
		if err != nil {
			return "", err
		}
		for _, p := range programs {
			err := os.Symlink(filepath.Join(d, p.Name()), filepath.Join(dir, p.Name()))
			if err != nil && !errors.Is(err, os.ErrExist) {
				return "", err
			}
		}
	}
	return dir, nil
}

// pinnedVersion returns the version of the module in the go.mod in dir.
func pinnedVersion(dir, module string) (string, error) {
	f, err := parseGoMod(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	for _, r := range f.Require {
		if r.Mod.Path == module {
			return r.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("%s/go.mod does not require %s", dir, module)
}

func parseGoMod(path string) (*modfile.File, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(path, content, nil)
}
