package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	path, fsType, source string
}

// mountPoints returns the mounts in the mount namespace of this process, which is that of the node.
func mountPoints() ([]mountPoint, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read mounts: %w", err)
	}
	return parseMountPoints(string(content)), nil
}

// parseMountPoints parses lines such as
//
//	36 35 7:0 / /mnt/a\040b rw,relatime shared:1 master:2 - xfs /dev/loop0 rw,attr2
//
// with a variable number of fields before the dash.
func parseMountPoints(content string) []mountPoint {
	var points []mountPoint
	for line := range strings.Lines(content) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		points = append(points, mountPoint{path: unescapeMount.Replace(left[4]), fsType: right[0], source: right[1]})
	}
	return points
}

// unescapeMount replaces the escapes of mount paths.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountAt returns the topmost mount at path.
func mountAt(path string) (mountPoint, bool, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return mountPoint{}, false, nil
	}
	if err != nil {
		return mountPoint{}, false, fmt.Errorf("resolve mount path: %w", err)
	}
	points, err := mountPoints()
	if err != nil {
		return mountPoint{}, false, err
	}
	var found mountPoint
	for _, p := range points {
		if p.path == resolved {
			found = p // the last entry is the topmost mount
		}
	}
	return found, found.path != "", nil
}

// unmount removes the mount at path; a missing mount is not an error, because the kubelet repeats calls.
func unmount(ctx context.Context, path string) error {
	_, mounted, err := mountAt(path)
	if err != nil || !mounted {
		return err
	}
	_, err = run(ctx, "umount", path)
	return err
}

// publish bind-mounts a staged volume into a pod.
func publish(ctx context.Context, staged, target string, readOnly bool) error {
	_, mounted, err := mountAt(target)
	if err != nil || mounted {
		return err
	}
	// Without this check the pod would get a directory on the disk of the node.
	if _, mounted, err = mountAt(staged); err != nil {
		return err
	} else if !mounted {
		return fmt.Errorf("nothing is mounted at %s", staged)
	}
	if err := os.MkdirAll(target, 0o750); err != nil {
		return fmt.Errorf("create mount directory: %w", err)
	}
	options := "bind"
	if readOnly {
		options = "bind,ro"
	}
	_, err = run(ctx, "mount", "-o", options, staged, target)
	return err
}

// unpublish removes the mount and its directory.
func unpublish(ctx context.Context, target string) error {
	if err := unmount(ctx, target); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove mount directory: %w", err)
	}
	return nil
}
