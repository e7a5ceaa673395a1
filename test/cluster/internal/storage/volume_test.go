package storage

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const mib = 1 << 20

// TestVolumeLifecycle runs all operations of the node on one volume, with a real loop device.
func TestVolumeLifecycle(t *testing.T) {
	for fsType, tools := range map[string][]string{
		fsXFS:  {"mkfs.xfs", "xfs_growfs"},
		fsExt4: {"mkfs.ext4"},
	} {
		t.Run(fsType, func(t *testing.T) {
			requireRootAnd(t, append(tools, "losetup", "blkid", "mount", "umount")...)
			testVolumeLifecycle(t, fsType)
		})
	}
}

func testVolumeLifecycle(t *testing.T, fsType string) {
	ctx := t.Context()
	d := &disk{dir: t.TempDir()}
	root := t.TempDir()
	staged, target := filepath.Join(root, "staged"), filepath.Join(root, "pod", "mount")
	t.Cleanup(func() { cleanUp(t, d.dir, target, staged) })

	must(t, d.create(ctx, "vol", 300*mib))
	for range 2 { // the kubelet repeats calls
		must(t, d.stage(ctx, "vol", fsType, staged, []string{"noatime"}))
		must(t, publish(ctx, staged, target, false))
	}
	must(t, os.WriteFile(filepath.Join(target, "data"), []byte("kept"), 0o600))
	if err := d.remove(ctx, "vol"); !errors.Is(err, errInUse) {
		t.Errorf("remove of a mounted volume: got %v, want %v", err, errInUse)
	}

	if fsType == fsXFS { // ext4 needs CAP_SYS_RESOURCE for online expansion
		testFilesystemGrowth(t, d, staged)
	}

	must(t, unpublish(ctx, target))
	must(t, d.unstage(ctx, "vol", staged))
	must(t, unpublish(ctx, target))
	must(t, d.unstage(ctx, "vol", staged))
	if device, err := deviceOf(ctx, d.file("vol")); err != nil || device != "" {
		t.Errorf("after unstage: device %q, error %v, want none", device, err)
	}

	must(t, d.stage(ctx, "vol", fsType, staged, nil))
	if got, err := os.ReadFile(filepath.Join(staged, "data")); string(got) != "kept" {
		t.Errorf("after staging again: got data %q, error %v, want the data kept", got, err)
	}
	must(t, unmount(ctx, staged)) // as when the node's namespaces are removed: the device stays
	must(t, d.remove(ctx, "vol"))
	must(t, d.remove(ctx, "vol"))
	if _, err := os.Stat(d.file("vol")); !os.IsNotExist(err) {
		t.Errorf("after remove: %v, want no file", err)
	}
}

func testFilesystemGrowth(t *testing.T, d *disk, staged string) {
	t.Helper()
	ctx := t.Context()
	if err := d.growFilesystem(ctx, "vol", staged, 400*mib); !errors.Is(err, errFileTooSmall) {
		t.Errorf("expansion without a larger file: got %v, want %v", err, errFileTooSmall)
	}
	before := filesystemSize(t, staged)
	must(t, d.enlarge(ctx, "vol", 900*mib))
	// With a lowered request, the filesystem uses less than the file.
	for range 2 {
		must(t, d.growFilesystem(ctx, "vol", staged, 400*mib))
	}
	if got, want := filesystemSize(t, staged)-before, int64(100*mib); got != want {
		t.Errorf("filesystem expanded by %d bytes, want %d", got, want)
	}
	must(t, d.growFilesystem(ctx, "vol", staged, 350*mib)) // never shrinks
	if got, want := filesystemSize(t, staged)-before, int64(100*mib); got != want {
		t.Errorf("after a smaller request: expanded by %d bytes, want %d", got, want)
	}
}

func TestStageRefusesForeignFilesystem(t *testing.T) {
	requireRootAnd(t, "mkfs.xfs", "losetup", "blkid")
	ctx := t.Context()
	d := &disk{dir: t.TempDir()}
	staged := filepath.Join(t.TempDir(), "staged")
	t.Cleanup(func() { cleanUp(t, d.dir, staged) })
	must(t, d.create(ctx, "vol", 300*mib))
	must(t, exec.CommandContext(ctx, "mkfs.xfs", "-q", d.file("vol")).Run())
	err := d.stage(ctx, "vol", fsExt4, staged, nil)
	if err == nil || !strings.Contains(err.Error(), "holds xfs, not ext4") {
		t.Errorf("got error %v, want one that names both filesystems", err)
	}
}

func TestMissingFileIsNotReplaced(t *testing.T) {
	d := &disk{dir: t.TempDir()}
	if err := d.enlarge(t.Context(), "vol", 300*mib); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("enlarge: got %v, want %v", err, os.ErrNotExist)
	}
	if _, err := os.Stat(d.file("vol")); !os.IsNotExist(err) {
		t.Errorf("enlarge created an empty file in place of lost data")
	}
}

func TestPublishNeedsStagedVolume(t *testing.T) {
	root := t.TempDir()
	if err := publish(t.Context(), root, filepath.Join(root, "pod"), false); err == nil {
		t.Error("publish of an unmounted directory succeeded; the pod would write to the disk of the node")
	}
}

func TestCreateSize(t *testing.T) {
	for name, tc := range map[string]struct{ before, size, want int64 }{
		"new file":                {size: 8192, want: 8192},
		"ends within a block":     {size: 8193, want: 12288},
		"repeated":                {before: 8192, size: 8192, want: 8192},
		"existing file is larger": {before: 16384, size: 8192, want: 16384},
	} {
		t.Run(name, func(t *testing.T) {
			d := &disk{dir: t.TempDir()}
			if tc.before > 0 {
				must(t, d.create(t.Context(), "vol", tc.before))
			}
			must(t, d.create(t.Context(), "vol", tc.size))
			info, err := os.Stat(d.file("vol"))
			must(t, err)
			if info.Size() != tc.want {
				t.Errorf("got %d bytes, want %d", info.Size(), tc.want)
			}
		})
	}
}

func TestParseXFSGeometry(t *testing.T) {
	for name, tc := range map[string]struct {
		out                   string
		wantBlock, wantBlocks int64
		wantErr               bool
	}{
		"output of xfs_growfs": {
			out: "meta-data=/dev/loop0             isize=512    agcount=4, agsize=19200 blks\n" +
				"         =                       sectsz=512   attr=2, projid32bit=1\n" +
				"data     =                       bsize=4096   blocks=76800, imaxpct=25\n" +
				"         =                       sunit=0      swidth=0 blks\n" +
				"log      =internal log           bsize=4096   blocks=16384, version=2\n",
			wantBlock: 4096, wantBlocks: 76800,
		},
		"no data section": {out: "log =internal log bsize=4096 blocks=16384, version=2\n", wantErr: true},
		"no numbers":      {out: "data = bsize=big blocks=many\n", wantErr: true},
		"nothing":         {wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			block, blocks, err := parseXFSGeometry(tc.out)
			if block != tc.wantBlock || blocks != tc.wantBlocks || (err != nil) != tc.wantErr {
				t.Errorf("got %d, %d, %v, want %d, %d, error %v", block, blocks, err, tc.wantBlock, tc.wantBlocks, tc.wantErr)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func requireRootAnd(t *testing.T, tools ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to attach loop devices and to mount")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skip("this machine has no loop devices: ", err)
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("a required program is not installed: ", err)
		}
	}
}

func filesystemSize(t *testing.T, path string) int64 {
	t.Helper()
	var s unix.Statfs_t
	must(t, unix.Statfs(path, &s))
	return int64(s.Blocks) * s.Bsize
}

// cleanUp removes all mounts and devices, also after a failure.
func cleanUp(t *testing.T, volumeDir string, mounts ...string) {
	t.Helper()
	for _, path := range mounts {
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
	ctx := context.WithoutCancel(t.Context()) // canceled during cleanup
	if err := Detach(ctx, volumeDir); err != nil {
		t.Error("detach: ", err)
	}
}
