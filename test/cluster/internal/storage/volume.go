package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const (
	fsXFS  = "xfs"
	fsExt4 = "ext4"

	// blockSize is the default of both filesystems; a partial block at the end of a file would be lost.
	blockSize = 4096
	// blkidNothing is the exit code of blkid for a device without a known signature.
	blkidNothing = 2
)

var (
	errInUse        = errors.New("volume is still mounted")
	errFileTooSmall = errors.New("backing file is smaller than the requested size")
)

// disk manages the backing files, devices and mounts of a node's volumes.
type disk struct {
	dir string
	// mu serializes operations: the kubelet, the resizer and the deleter act on the same volumes. A single lock is
	// sufficient, because operations take milliseconds.
	mu sync.Mutex
}

func (d *disk) file(id string) string { return filepath.Join(d.dir, id+".img") }

// create creates the backing file. It is sparse: a test may request terabytes.
func (d *disk) create(_ context.Context, id string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.OpenFile(d.file(id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("create backing file: %w", err)
	}
	return errors.Join(extend(f, size), f.Close())
}

// enlarge enlarges the backing file of a volume, even while mounted. [disk.growFilesystem] expands the filesystem.
func (d *disk) enlarge(ctx context.Context, id string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.OpenFile(d.file(id), os.O_RDWR, 0) // never creates: an empty file in place of lost data would be formatted
	if err != nil {
		return fmt.Errorf("open backing file: %w", err)
	}
	if err := errors.Join(extend(f, size), f.Close()); err != nil {
		return err
	}
	_, err = d.refresh(ctx, id)
	return err
}

// extend never shrinks the file. After a failed expansion a smaller request only needs a smaller filesystem, and
// shrinking the file of an expanded filesystem would destroy it.
func extend(f *os.File, size int64) error {
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read size of backing file: %w", err)
	}
	size = (size + blockSize - 1) / blockSize * blockSize
	if info.Size() >= size {
		return nil
	}
	if err := f.Truncate(size); err != nil {
		return fmt.Errorf("extend backing file: %w", err)
	}
	return nil
}

// refresh updates the size of an attached loop device and returns the device, or "".
func (d *disk) refresh(ctx context.Context, id string) (string, error) {
	device, err := deviceOf(ctx, d.file(id))
	if err != nil || device == "" {
		return "", err
	}
	_, err = run(ctx, "losetup", "--set-capacity", device)
	return device, err
}

// remove detaches the device and deletes the file. It fails while the volume is mounted.
func (d *disk) remove(ctx context.Context, id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	device, err := deviceOf(ctx, d.file(id))
	if err != nil {
		return err
	}
	if device != "" {
		points, err := mountPoints()
		if err != nil {
			return err
		}
		for _, p := range points {
			if p.source == device {
				return fmt.Errorf("%w at %s", errInUse, p.path)
			}
		}
		if err := detach(ctx, device); err != nil {
			return err
		}
	}
	if err := os.Remove(d.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove backing file: %w", err)
	}
	return nil
}

// stage attaches the volume, formats it if it is blank, and mounts it at target.
func (d *disk) stage(ctx context.Context, id, fsType, target string, options []string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, mounted, err := mountAt(target)
	if err != nil || mounted {
		return err
	}
	device, err := attach(ctx, d.file(id))
	if err != nil {
		return err
	}
	if err := format(ctx, device, fsType); err != nil {
		return err
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("create staging directory: %w", err)
	}
	args := []string{"-t", fsType}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	_, err = run(ctx, "mount", append(args, device, target)...)
	return err
}

// format creates a filesystem on a blank device and rejects a device with another one.
func format(ctx context.Context, device, fsType string) error {
	out, err := run(ctx, "blkid", "--probe", "--match-tag", "TYPE", "--output", "value", device)
	var exit *exec.ExitError
	switch {
	case err == nil && strings.TrimSpace(out) == fsType:
		return nil
	case err == nil:
		return fmt.Errorf("%s holds %s, not %s", device, strings.TrimSpace(out), fsType)
	case !errors.As(err, &exit) || exit.ExitCode() != blkidNothing:
		return err // do not format after an unknown error
	}
	// The kubelet may cancel the call; a partial filesystem could neither be mounted nor formatted.
	_, err = run(context.WithoutCancel(ctx), "mkfs."+fsType, "-q", device)
	return err
}

// unstage reverts stage.
func (d *disk) unstage(ctx context.Context, id, target string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := unmount(ctx, target); err != nil {
		return err
	}
	device, err := deviceOf(ctx, d.file(id))
	if err != nil || device == "" {
		return err
	}
	return detach(ctx, device)
}

// growFilesystem expands the filesystem mounted at path to size bytes.
func (d *disk) growFilesystem(ctx context.Context, id, path string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(d.file(id))
	if err != nil {
		return fmt.Errorf("read size of backing file: %w", err)
	}
	if info.Size() < size {
		return fmt.Errorf("%w: %d < %d bytes", errFileTooSmall, info.Size(), size)
	}
	point, mounted, err := mountAt(path)
	if err != nil {
		return err
	}
	if !mounted {
		return fmt.Errorf("nothing is mounted at %s", path)
	}
	device, err := d.refresh(ctx, id)
	if err != nil {
		return err
	}
	if point.fsType == fsXFS {
		return growXFS(ctx, path, size)
	}
	// ext4 uses the whole device. Its size cannot be read cheaply, and resize2fs refuses to shrink.
	_, err = run(ctx, "resize2fs", device)
	return err
}

// growXFS expands to exactly size, because the file may be larger than the volume (see extend).
func growXFS(ctx context.Context, path string, size int64) error {
	out, err := run(ctx, "xfs_growfs", "-n", path)
	if err != nil {
		return err
	}
	block, blocks, err := parseXFSGeometry(out)
	if err != nil {
		return fmt.Errorf("xfs_growfs -n %s: %w", path, err)
	}
	want := (size + block - 1) / block
	if blocks >= want { // already expanded; a smaller size would start an experimental shrink
		return nil
	}
	_, err = run(ctx, "xfs_growfs", "-D", strconv.FormatInt(want, 10), path)
	return err
}

// parseXFSGeometry returns the block size and the number of data blocks from a line such as
//
//	data     =                       bsize=4096   blocks=76800, imaxpct=25
func parseXFSGeometry(out string) (block, blocks int64, err error) {
	for line := range strings.Lines(out) {
		section, values, _ := strings.Cut(line, "=")
		if strings.TrimSpace(section) != "data" {
			continue
		}
		if _, err := fmt.Sscanf(strings.TrimSpace(values), "bsize=%d blocks=%d,", &block, &blocks); err != nil {
			return 0, 0, fmt.Errorf("parse %q: %w", strings.TrimSpace(line), err)
		}
		if block <= 0 {
			return 0, 0, fmt.Errorf("parse %q: no block size", strings.TrimSpace(line))
		}
		return block, blocks, nil
	}
	return 0, 0, errors.New("no line with the data section")
}
