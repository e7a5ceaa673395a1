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

// otherKubernetes makes a module like the pinned one for another version of
// Kubernetes. Its go.mod replaces the staging modules by folders of its own tree;
// released, they are modules v0.x.y of their own.
func (b *Builder) otherKubernetes(ctx context.Context, pinnedDir, version string) (string, error) {
	dir := filepath.Join(b.Cache, "modules", "kubernetes-"+version)
	missing := func() bool {
		_, err := os.Stat(filepath.Join(dir, "go.sum")) // written last
		return err != nil
	}
	return dir, b.once(missing, func() error {
		return b.during("resolving the modules of Kubernetes "+version, func() error {
			return b.resolveKubernetes(ctx, pinnedDir, dir, version)
		})
	})
}

func (b *Builder) resolveKubernetes(ctx context.Context, pinnedDir, dir, version string) error {
	upstream, err := upstreamMod(ctx, b.Source, version)
	if err != nil {
		return err
	}
	ours, err := parseMod(filepath.Join(pinnedDir, "go.mod"))
	if err != nil {
		return err
	}
	mod, err := kubernetesMod(ours, upstream, version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return err
	}
	return run(ctx, dir, []string{"GOWORK=off", "GOFLAGS=-mod=mod"}, "go", "mod", "tidy")
}

// kubernetesMod keeps module name and tools of ours, and takes the rest from upstream.
func kubernetesMod(ours, upstream *modfile.File, version string) ([]byte, error) {
	staging := "v0" + strings.TrimPrefix(version, "v1")
	f := new(modfile.File)
	if err := f.AddModuleStmt(ours.Module.Mod.Path); err != nil {
		return nil, err
	}
	if err := f.AddGoStmt(ours.Go.Version); err != nil {
		return nil, err
	}
	if err := f.AddRequire(kubernetesModule, version); err != nil {
		return nil, err
	}
	for _, t := range ours.Tool {
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

func upstreamMod(ctx context.Context, dir, version string) (*modfile.File, error) {
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
	return parseMod(module.GoMod)
}
