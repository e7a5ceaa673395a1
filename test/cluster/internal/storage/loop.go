package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fileID identifies a file independently of its path: the path of a backing file depends on the mount namespace, which
// may no longer exist.
type fileID struct {
	device, inode uint64
}

// loopDevice is an attached device with its backing file.
type loopDevice struct {
	name string // /dev/loop0
	path string // of the backing file, without the suffix of a deleted one
	file fileID
}

// loopDevices returns all attached loop devices of the machine, including those of other nodes.
func loopDevices(ctx context.Context) ([]loopDevice, error) {
	out, err := run(ctx, "losetup", "--json", "--list", "--output", "NAME,BACK-FILE,BACK-INO,BACK-MAJ:MIN")
	if err != nil {
		return nil, err
	}
	return parseLoopDevices([]byte(out))
}

func parseLoopDevices(out []byte) ([]loopDevice, error) {
	if len(bytes.TrimSpace(out)) == 0 { // older versions print nothing
		return nil, nil
	}
	var list struct {
		Devices []struct {
			Name   string      `json:"name"`
			File   string      `json:"back-file"`
			Inode  json.Number `json:"back-ino"`
			Device string      `json:"back-maj:min"`
		} `json:"loopdevices"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, fmt.Errorf("parse losetup output: %w", err)
	}
	var devices []loopDevice
	for _, d := range list.Devices {
		l := loopDevice{name: d.Name, path: strings.TrimSuffix(d.File, " (deleted)")}
		// Invalid numbers result in the zero ID, which no file has; the path may still match.
		var major, minor uint32
		if inode, err := d.Inode.Int64(); err == nil {
			if _, err := fmt.Sscanf(d.Device, "%d:%d", &major, &minor); err == nil {
				l.file = fileID{device: unix.Mkdev(major, minor), inode: uint64(inode)}
			}
		}
		devices = append(devices, l)
	}
	return devices, nil
}

// deviceOf returns the loop device of a backing file, or "".
func deviceOf(ctx context.Context, file string) (string, error) {
	id, err := fileIDOf(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	devices, err := loopDevices(ctx)
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		if d.file == id {
			return d.name, nil
		}
	}
	return "", nil
}

// attach returns the loop device of a backing file and creates it if needed. After a restart of the node the old device
// still exists; a second one for the same file would corrupt the filesystem.
func attach(ctx context.Context, file string) (string, error) {
	device, err := deviceOf(ctx, file)
	if err != nil || device != "" {
		return device, err
	}
	out, err := run(ctx, "losetup", "--find", "--show", file)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(out), nil
}

func detach(ctx context.Context, device string) error {
	_, err := run(ctx, "losetup", "--detach", device)
	return err
}

// Detach detaches all loop devices with backing files below volumeDir, including deleted files. Call it after the node's
// namespaces are removed and before the directory is deleted.
func Detach(ctx context.Context, volumeDir string) error {
	devices, err := loopDevices(ctx)
	if err != nil {
		return err
	}
	volumes, err := newVolumeFolder(volumeDir)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range devices {
		if volumes.contains(d) {
			errs = append(errs, detach(ctx, d.name))
		}
	}
	return errors.Join(errs...)
}

// volumeFolder matches its files by path or, if they still exist, by identity.
type volumeFolder struct {
	paths []string
	files map[fileID]bool
}

func newVolumeFolder(dir string) (volumeFolder, error) {
	f := volumeFolder{paths: []string{filepath.Clean(dir)}, files: map[fileID]bool{}}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		f.paths = append(f.paths, resolved)
	}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		id, err := fileIDOf(path)
		f.files[id] = true
		return err
	})
	// The directory may be deleted while devices with deleted files still exist.
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volumeFolder{}, fmt.Errorf("list backing files: %w", err)
	}
	return f, nil
}

func (f volumeFolder) contains(d loopDevice) bool {
	if d.file != (fileID{}) && f.files[d.file] {
		return true
	}
	for _, p := range f.paths {
		if strings.HasPrefix(d.path, p+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func fileIDOf(path string) (fileID, error) {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}, fmt.Errorf("identify backing file: %w", err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fileID{device: stat.Dev, inode: stat.Ino}, nil
}

// run executes a command and includes its stderr in the error, which is shown in pod events.
func run(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, firstLines(stderr.String()))
	}
	return stdout.String(), nil
}

// firstLines returns the first lines as one line: mkfs prints its whole usage after the error.
func firstLines(stderr string) string {
	lines := strings.FieldsFunc(stderr, func(r rune) bool { return r == '\n' })
	if len(lines) > 3 {
		lines = lines[:3]
	}
	return strings.Join(lines, "; ")
}
