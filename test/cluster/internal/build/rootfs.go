package build

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Rootfs unpacks an image once and returns the directory. Its programs can be run there with chroot.
func (b *Builder) Rootfs(ctx context.Context, imageName string) (string, error) {
	i := slices.IndexFunc(images(), func(im image) bool { return im.name == imageName })
	if i < 0 {
		return "", fmt.Errorf("unknown image %q", imageName)
	}
	archive, err := b.buildImage(ctx, images()[i])
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.Cache, "rootfs", strings.TrimSuffix(filepath.Base(archive), ".tar"))
	missing := func() bool {
		_, err := os.Stat(dir)
		return err != nil
	}
	return dir, b.buildOnce(missing, func() error {
		return b.withProgress("unpacking image "+imageName, func() error { return unpack(ctx, archive, imageName, dir) })
	})
}

// unpack is complete when the directory has its final name.
func unpack(ctx context.Context, archive, imageName, dir string) error {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	im, err := tarball.ImageFromPath(archive, &tag)
	if err != nil {
		return fmt.Errorf("read %s: %w", archive, err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(dir), ".rootfs-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	content := mutate.Extract(im)
	defer func() { _ = content.Close() }()
	tar := exec.CommandContext(ctx, "tar", "-x", "--numeric-owner", "-C", tmp)
	tar.Stdin = content
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("unpack %s: %w\n%s", archive, err, out)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}
