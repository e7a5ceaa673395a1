package storage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestParseLoopDevices(t *testing.T) {
	for name, tc := range map[string]struct {
		out     string
		want    []loopDevice
		wantErr bool
	}{
		"existing and deleted file": {
			out: `{"loopdevices": [
				{"name": "/dev/loop0", "back-file": "/v/a.img", "back-ino": 9977863, "back-maj:min": "     254:0  "},
				{"name": "/dev/loop1", "back-file": "/v/b.img (deleted)", "back-ino": 12, "back-maj:min": "8:3"}]}`,
			want: []loopDevice{
				{name: "/dev/loop0", path: "/v/a.img", file: fileID{device: unix.Mkdev(254, 0), inode: 9977863}},
				{name: "/dev/loop1", path: "/v/b.img", file: fileID{device: unix.Mkdev(8, 3), inode: 12}},
			},
		},
		"numbers as text": {
			out:  `{"loopdevices": [{"name": "/dev/loop0", "back-file": "/v/a.img", "back-ino": "7", "back-maj:min": "8:3"}]}`,
			want: []loopDevice{{name: "/dev/loop0", path: "/v/a.img", file: fileID{device: unix.Mkdev(8, 3), inode: 7}}},
		},
		"numbers not readable": {
			out:  `{"loopdevices": [{"name": "/dev/loop0", "back-file": "/v/a.img", "back-ino": null, "back-maj:min": null}]}`,
			want: []loopDevice{{name: "/dev/loop0", path: "/v/a.img"}},
		},
		"empty list": {out: "{\n   \"loopdevices\": [\n\n   ]\n}\n"},
		"no output":  {out: "\n"},
		"not JSON":   {out: "NAME BACK-FILE", wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseLoopDevices([]byte(tc.out))
			if (err != nil) != tc.wantErr {
				t.Fatalf("got error %v, want error %v", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(loopDevice{}, fileID{})); diff != "" {
				t.Errorf("devices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVolumeFolderContains(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "volumes")
	must(t, os.Mkdir(dir, 0o750))
	must(t, os.WriteFile(filepath.Join(dir, "a.img"), nil, 0o600))
	must(t, os.Symlink(dir, filepath.Join(root, "link")))
	id, err := fileIDOf(filepath.Join(dir, "a.img"))
	must(t, err)

	for name, tc := range map[string]struct {
		dir    string
		device loopDevice
		want   bool
	}{
		"file below":                              {dir, loopDevice{path: dir + "/a.img"}, true},
		"deleted file below":                      {dir, loopDevice{path: dir + "/gone.img"}, true},
		"directory with a trailing slash":         {dir + "/", loopDevice{path: dir + "/gone.img"}, true},
		"directory by symbolic link":              {filepath.Join(root, "link"), loopDevice{path: dir + "/gone.img"}, true},
		"same file with the path of another node": {dir, loopDevice{path: "/other/a.img", file: id}, true},
		"deleted directory":                       {root + "/gone", loopDevice{path: root + "/gone/a.img"}, true},
		"sibling with the same prefix":            {dir, loopDevice{path: dir + "-2/a.img"}, false},
		"another directory":                       {dir, loopDevice{path: "/other/a.img"}, false},
		"unknown file":                            {dir, loopDevice{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := newVolumeFolder(tc.dir)
			must(t, err)
			if got := f.contains(tc.device); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDetachLeavesOthersAlone(t *testing.T) {
	requireRootAnd(t, "losetup")
	ctx := t.Context()
	ours, others := &disk{dir: t.TempDir()}, &disk{dir: t.TempDir()}
	t.Cleanup(func() { cleanUp(t, ours.dir); cleanUp(t, others.dir) })
	for _, d := range []*disk{ours, others} {
		for _, id := range []string{"kept", "deleted"} {
			must(t, d.create(ctx, id, mib))
			_, err := attach(ctx, d.file(id))
			must(t, err)
		}
		must(t, os.Remove(d.file("deleted")))
	}

	must(t, Detach(ctx, ours.dir))

	devices, err := loopDevices(ctx)
	must(t, err)
	left := map[string]bool{}
	for _, d := range devices {
		left[d.path] = true
	}
	for path, want := range map[string]bool{
		ours.file("kept"): false, ours.file("deleted"): false,
		others.file("kept"): true, others.file("deleted"): true,
	} {
		if left[path] != want {
			t.Errorf("device on %s: attached %v, want %v", path, left[path], want)
		}
	}
}

func TestParseMountPoints(t *testing.T) {
	const content = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
36 22 7:0 / /mnt/a\040b rw shared:2 master:3 propagate_from:1 - xfs /dev/loop0 rw,attr2
37 22 0:5 / /dev rw - devtmpfs devtmpfs rw

half a line
`
	want := []mountPoint{
		{path: "/", fsType: "ext4", source: "/dev/vda"},
		{path: "/mnt/a b", fsType: "xfs", source: "/dev/loop0"},
		{path: "/dev", fsType: "devtmpfs", source: "devtmpfs"},
	}
	if diff := cmp.Diff(want, parseMountPoints(content), cmp.AllowUnexported(mountPoint{})); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}
