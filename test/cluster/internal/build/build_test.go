package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/mod/modfile"
)

func TestParseLevel(t *testing.T) {
	for in, want := range map[string]Level{"node": Node, "control-plane": ControlPlane} {
		if got, err := ParseLevel(in); err != nil || got != want {
			t.Errorf("%s: got %q, %v", in, got, err)
		}
	}
	if _, err := ParseLevel("nodes"); err == nil || !strings.Contains(err.Error(), "control-plane") {
		t.Errorf("got error %v, want one with the valid levels", err)
	}
}

// TestModuleFilesMatchParts checks that the module files match the table of parts.
func TestModuleFilesMatchParts(t *testing.T) {
	for _, p := range parts(Node) {
		dir := filepath.Join("..", "..", "parts", p.name)
		if _, err := pinnedVersion(dir, p.module); err != nil {
			t.Error(err)
		}
		f, err := parseGoMod(filepath.Join(dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, tool := range f.Tool {
			got = append(got, tool.Path)
		}
		for _, pkg := range p.programs {
			want = append(want, pkg)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: tools in go.mod (-want +got):\n%s", p.name, diff)
		}
	}
}

func TestKubernetesGoMod(t *testing.T) {
	parse := func(text string) *modfile.File {
		f, err := modfile.Parse("go.mod", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	pinnedMod := parse("module example.com/parts/kubernetes\n\ngo 1.26.0\n\ntool k8s.io/kubernetes/cmd/kubelet\n\nrequire k8s.io/kubernetes v1.36.3\n")
	upstream := parse("module k8s.io/kubernetes\n\ngo 1.24.0\n\nreplace k8s.io/api => ./staging/src/k8s.io/api\n\nreplace example.com/x => example.com/y v1.0.0\n")
	got, err := kubernetesGoMod(pinnedMod, upstream, "v1.34.4")
	if err != nil {
		t.Fatal(err)
	}
	want := `module example.com/parts/kubernetes

go 1.26.0

require k8s.io/kubernetes v1.34.4

tool k8s.io/kubernetes/cmd/kubelet

replace k8s.io/api => k8s.io/api v0.34.4
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("go.mod (-want +got):\n%s", diff)
	}
}

func TestDigestChangesWithContent(t *testing.T) {
	dir := t.TempDir()
	seen := map[string]string{}
	for what, change := range map[string]func() error{
		"a file":       func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("1"), 0o644) },
		"its content":  func() error { return os.WriteFile(filepath.Join(dir, "a"), []byte("2"), 0o644) },
		"another file": func() error { return os.WriteFile(filepath.Join(dir, "b"), nil, 0o644) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		got, err := digest(dir)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have the same digest", what, other)
		}
		seen[got] = what
	}
	if Key("ab", "c") == Key("a", "bc") {
		t.Error("inputs must be separated")
	}
}

// TestImageIsBuiltOnceAndReadable reads an image as containerd would.
func TestImageIsBuiltOnceAndReadable(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(binary, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	b := &Builder{Source: t.TempDir(), Cache: t.TempDir(), Out: io.Discard}
	built := 0
	im := image{
		name:   "localhost/thing:1",
		config: v1.Config{Entrypoint: []string{"/program"}, User: "65532:65532"},
		writeLayer: func(_ context.Context, _ *Builder, file string) error {
			built++
			return writeTar(file, dirEntry("tmp", 0o1777), fileEntry("program", binary))
		},
	}
	var file string
	for range 2 {
		var err error
		if file, err = b.buildImage(t.Context(), im); err != nil {
			t.Fatal(err)
		}
	}
	if built != 1 {
		t.Errorf("built %d times, want once", built)
	}
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(im.config, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	rootfs := mutate.Extract(img)
	defer func() { _ = rootfs.Close() }()
	got := map[string]int64{}
	for r := tar.NewReader(rootfs); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Mode
	}
	if diff := cmp.Diff(map[string]int64{"tmp": 0o1777, "program": 0o755}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestFailedBuildIsNotCached(t *testing.T) {
	b := &Builder{Source: t.TempDir(), Cache: t.TempDir(), Out: io.Discard}
	im := image{name: "localhost/thing:1", writeLayer: func(context.Context, *Builder, string) error { return errors.New("no space") }}
	for range 2 { // the second build must not use leftovers of the first
		if _, err := b.buildImage(t.Context(), im); err == nil || !strings.Contains(err.Error(), "building image localhost/thing:1: no space") {
			t.Errorf("got %v", err)
		}
	}
	if left, _ := filepath.Glob(b.Cache + "/images/*"); len(left) > 0 {
		t.Errorf("got leftovers %v, want none", left)
	}
}

// TestLockBlocksSecondBuild checks that a second build waits and prints a message.
func TestLockBlocksSecondBuild(t *testing.T) {
	var out bytes.Buffer
	a, b := &Builder{Cache: t.TempDir(), Out: io.Discard}, &Builder{Out: &out}
	b.Cache = a.Cache
	unlock, err := a.lock()
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error)
	go func() {
		unlock, err := b.lock()
		if err == nil {
			unlock()
		}
		locked <- err
	}()
	select {
	case <-locked:
		t.Error("two builds run at the same time")
	case <-time.After(100 * time.Millisecond):
	}
	unlock()
	if err := <-locked; err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "waiting for another build") {
		t.Errorf("got output %q, want a message about the other build", out.String())
	}
}
