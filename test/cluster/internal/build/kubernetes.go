package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/modfile"
)

// kubernetesModuleFor creates a module for another version of Kubernetes. The go.mod of Kubernetes replaces the staging
// modules by local directories; their releases are modules v0.x.y.
func (b *Builder) kubernetesModuleFor(ctx context.Context, pinnedDir, version string) (string, error) {
	dir := filepath.Join(b.Cache, "modules", "kubernetes-"+version)
	missing := func() bool {
		_, err := os.Stat(filepath.Join(dir, "go.sum")) // written last
		return err != nil
	}
	return dir, b.buildOnce(missing, func() error {
		return b.withProgress("resolving the modules of Kubernetes "+version, func() error {
			return b.resolveKubernetes(ctx, pinnedDir, dir, version)
		})
	})
}

func (b *Builder) resolveKubernetes(ctx context.Context, pinnedDir, dir, version string) error {
	upstream, err := upstreamGoMod(ctx, b.Source, version)
	if err != nil {
		return err
	}
	pinnedMod, err := parseGoMod(filepath.Join(pinnedDir, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := kubernetesGoMod(pinnedMod, upstream, version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	return runCommand(ctx, dir, []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "mod", "tidy")
}

// kubernetesGoMod takes module name and tools from the pinned go.mod, and all versions from upstream.
func kubernetesGoMod(pinnedMod, upstream *modfile.File, version string) ([]byte, error) {
	staging := "v0" + strings.TrimPrefix(version, "v1")
	f := new(modfile.File)
	if err := f.AddModuleStmt(pinnedMod.Module.Mod.Path); err != nil {
		return nil, err
	}
	if err := f.AddGoStmt(pinnedMod.Go.Version); err != nil {
		return nil, err
	}
	if err := f.AddRequire(kubernetesModule, version); err != nil {
		return nil, err
	}
	for _, t := range pinnedMod.Tool {
		if err := f.AddTool(t.Path); err != nil {
			return nil, err
		}
	}
	for _, r := range upstream.Replace {
		if !strings.HasPrefix(r.New.Path, "./staging/") {
			continue
		}
		if err := f.AddReplace(r.Old.Path, "", r.Old.Path, staging); err != nil {
			return nil, err
		}
	}
	f.Cleanup()
	return f.Format()
}

func upstreamGoMod(ctx context.Context, dir, version string) (*modfile.File, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", kubernetesModule+"@"+version)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("download %s %s: %w", kubernetesModule, version, err)
	}
	var module struct{ GoMod string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, err
	}
	return parseGoMod(module.GoMod)
}
